/* What families are put together from: a list of fields each (fields_*.c), and a function that puts
   the graph together (family_*.c). */
#ifndef CLEAVE_GRAPH_IMPORT_FAMILIES_H
#define CLEAVE_GRAPH_IMPORT_FAMILIES_H

#include "graph/import/config/config_fields.h"

extern const cleave_fields cleave_fields_afmoe, cleave_fields_albert, cleave_fields_apertus,
    cleave_fields_arcee, cleave_fields_bart, cleave_fields_bert, cleave_fields_biogpt,
    cleave_fields_blenderbot, cleave_fields_blenderbot_small, cleave_fields_bloom,
    cleave_fields_clip_text_model, cleave_fields_clip_vision_model, cleave_fields_codegen,
    cleave_fields_cohere2, cleave_fields_cohere, cleave_fields_cwm, cleave_fields_dbrx,
    cleave_fields_deberta_v2, cleave_fields_deepseek_v2, cleave_fields_deepseek_v3,
    cleave_fields_deit, cleave_fields_dinov2, cleave_fields_dinov2_with_registers,
    cleave_fields_distilbert, cleave_fields_dots1, cleave_fields_electra, cleave_fields_ernie4_5,
    cleave_fields_ernie4_5_moe, cleave_fields_esm, cleave_fields_eurobert, cleave_fields_exaone,
    cleave_fields_exaone4, cleave_fields_exaone_moe, cleave_fields_falcon, cleave_fields_flex_olmo,
    cleave_fields_gemma2, cleave_fields_gemma3_text, cleave_fields_gemma, cleave_fields_glm4_moe,
    cleave_fields_glm4_moe_lite, cleave_fields_glm, cleave_fields_gpt2, cleave_fields_gpt_bigcode,
    cleave_fields_gpt_neo, cleave_fields_gpt_neox, cleave_fields_gpt_oss, cleave_fields_gptj,
    cleave_fields_granite, cleave_fields_granitemoe, cleave_fields_granitemoeshared,
    cleave_fields_granitemoehybrid, cleave_fields_helium, cleave_fields_hunyuan_v1_dense,
    cleave_fields_hunyuan_v1_moe, cleave_fields_hyperclovax, cleave_fields_internlm3,
    cleave_fields_iquestcoder, cleave_fields_jais2, cleave_fields_jina_embeddings_v3,
    cleave_fields_lfm2, cleave_fields_lfm2_moe, cleave_fields_llama4, cleave_fields_llama,
    cleave_fields_m2m_100, cleave_fields_marian, cleave_fields_minicpm3, cleave_fields_minimax_m2,
    cleave_fields_ministral, cleave_fields_ministral3, cleave_fields_mistral, cleave_fields_mixtral,
    cleave_fields_modernbert, cleave_fields_modernbert_decoder, cleave_fields_mpnet,
    cleave_fields_mpt, cleave_fields_mt5, cleave_fields_nemotron, cleave_fields_nomic_bert,
    cleave_fields_olmo2, cleave_fields_olmo3, cleave_fields_olmo, cleave_fields_olmoe,
    cleave_fields_opt, cleave_fields_persimmon, cleave_fields_phi3, cleave_fields_phi,
    cleave_fields_qwen2, cleave_fields_qwen2_moe, cleave_fields_qwen2_vl_text, cleave_fields_qwen3,
    cleave_fields_qwen3_moe, cleave_fields_qwen3_vl_moe_text, cleave_fields_qwen3_vl_text,
    cleave_fields_roberta, cleave_fields_seed_oss, cleave_fields_siglip_text_model,
    cleave_fields_siglip_vision_model, cleave_fields_smollm3, cleave_fields_solar_open,
    cleave_fields_stablelm, cleave_fields_starcoder2, cleave_fields_t5, cleave_fields_umt5,
    cleave_fields_vaultgemma, cleave_fields_vit, cleave_fields_whisper, cleave_fields_xglm,
    cleave_fields_youtu;

extern const cleave_masked cleave_masked_albert, cleave_masked_bert, cleave_masked_distilbert,
    cleave_masked_data2vec_text, cleave_masked_electra, cleave_masked_megatron_bert,
    cleave_masked_roberta;

extern cleave_composes cleave_compose_afmoe, cleave_compose_apertus, cleave_compose_arcee,
    cleave_compose_bart, cleave_compose_biogpt, cleave_compose_blenderbot,
    cleave_compose_blenderbot_small, cleave_compose_bloom, cleave_compose_clip_text,
    cleave_compose_clip_vision, cleave_compose_codegen, cleave_compose_cohere,
    cleave_compose_cohere2, cleave_compose_dbrx, cleave_compose_deberta_v2,
    cleave_compose_deepseek_v2, cleave_compose_deepseek_v3, cleave_compose_deit,
    cleave_compose_dinov2, cleave_compose_dinov2_with_registers, cleave_compose_dots1,
    cleave_compose_ernie4_5, cleave_compose_ernie4_5_moe, cleave_compose_esm,
    cleave_compose_eurobert, cleave_compose_exaone4, cleave_compose_exaone_moe,
    cleave_compose_falcon, cleave_compose_flex_olmo, cleave_compose_gemma, cleave_compose_gemma2,
    cleave_compose_gemma3, cleave_compose_glm, cleave_compose_glm4, cleave_compose_glm4_moe,
    cleave_compose_gpt2, cleave_compose_gpt_bigcode, cleave_compose_gpt_neo,
    cleave_compose_gpt_neox, cleave_compose_gpt_oss, cleave_compose_gptj, cleave_compose_granite,
    cleave_compose_granitemoe, cleave_compose_granitemoehybrid, cleave_compose_helium,
    cleave_compose_hunyuan_v1_dense, cleave_compose_hunyuan_v1_moe, cleave_compose_hyperclovax,
    cleave_compose_internlm3, cleave_compose_jais2, cleave_compose_lfm2, cleave_compose_lfm2_moe,
    cleave_compose_llama, cleave_compose_llama4, cleave_compose_m2m_100, cleave_compose_marian,
    cleave_compose_mbart, cleave_compose_minicpm3, cleave_compose_minimax_m2,
    cleave_compose_ministral3, cleave_compose_mixtral, cleave_compose_modernbert,
    cleave_compose_modernbert_decoder, cleave_compose_mpnet, cleave_compose_mpt,
    cleave_compose_nemotron, cleave_compose_jina_embeddings_v3, cleave_compose_nomic_bert,
    cleave_compose_olmo, cleave_compose_olmo2, cleave_compose_olmo3, cleave_compose_olmoe,
    cleave_compose_opt, cleave_compose_pegasus, cleave_compose_persimmon, cleave_compose_phi,
    cleave_compose_phi3, cleave_compose_qwen2, cleave_compose_qwen2_moe, cleave_compose_qwen3,
    cleave_compose_qwen3_moe, cleave_compose_qwen3_vl, cleave_compose_qwen3_vl_moe,
    cleave_compose_siglip_text, cleave_compose_siglip_vision, cleave_compose_smollm3,
    cleave_compose_solar_open, cleave_compose_stablelm, cleave_compose_starcoder2,
    cleave_compose_t5, cleave_compose_umt5, cleave_compose_vaultgemma, cleave_compose_vit,
    cleave_compose_whisper, cleave_compose_xglm, cleave_compose_youtu;
const char *cleave_compose_masked(cleave_composer *c, const cleave_config *config,
                                  const cleave_masked *of);

#endif
