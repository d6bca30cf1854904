/* What families are put together from: a list of fields each (fields_*.c), and a function that puts
   the graph together (family_*.c). */
#ifndef CLEAVE_GRAPH_IMPORT_FAMILIES_H
#define CLEAVE_GRAPH_IMPORT_FAMILIES_H

#include "graph/import/config/config_fields.h"

extern const cleave_fields cleave_fields_arcee;
extern const cleave_fields cleave_fields_bert;
extern const cleave_fields cleave_fields_bloom;
extern const cleave_fields cleave_fields_cohere;
extern const cleave_fields cleave_fields_cohere2;
extern const cleave_fields cleave_fields_deepseek_v2;
extern const cleave_fields cleave_fields_deepseek_v3;
extern const cleave_fields cleave_fields_distilbert;
extern const cleave_fields cleave_fields_dots1;
extern const cleave_fields cleave_fields_ernie4_5;
extern const cleave_fields cleave_fields_ernie4_5_moe;
extern const cleave_fields cleave_fields_exaone4;
extern const cleave_fields cleave_fields_falcon;
extern const cleave_fields cleave_fields_gemma;
extern const cleave_fields cleave_fields_gemma2;
extern const cleave_fields cleave_fields_gemma3_text;
extern const cleave_fields cleave_fields_glm;
extern const cleave_fields cleave_fields_glm4_moe;
extern const cleave_fields cleave_fields_gpt2;
extern const cleave_fields cleave_fields_gpt_neox;
extern const cleave_fields cleave_fields_gpt_oss;
extern const cleave_fields cleave_fields_granite;
extern const cleave_fields cleave_fields_granitemoe;
extern const cleave_fields cleave_fields_llama;
extern const cleave_fields cleave_fields_llama4;
extern const cleave_fields cleave_fields_minimax_m2;
extern const cleave_fields cleave_fields_ministral;
extern const cleave_fields cleave_fields_mistral;
extern const cleave_fields cleave_fields_mixtral;
extern const cleave_fields cleave_fields_nemotron;
extern const cleave_fields cleave_fields_olmo;
extern const cleave_fields cleave_fields_olmo2;
extern const cleave_fields cleave_fields_olmo3;
extern const cleave_fields cleave_fields_olmoe;
extern const cleave_fields cleave_fields_opt;
extern const cleave_fields cleave_fields_phi;
extern const cleave_fields cleave_fields_phi3;
extern const cleave_fields cleave_fields_qwen2;
extern const cleave_fields cleave_fields_qwen2_moe;
extern const cleave_fields cleave_fields_qwen3;
extern const cleave_fields cleave_fields_qwen3_moe;
extern const cleave_fields cleave_fields_roberta;
extern const cleave_fields cleave_fields_seed_oss;
extern const cleave_fields cleave_fields_smollm3;
extern const cleave_fields cleave_fields_stablelm;
extern const cleave_fields cleave_fields_starcoder2;
extern const cleave_fields cleave_fields_t5;
extern const cleave_fields cleave_fields_vit;

/* Each gives the name of the logits. */
const char *cleave_compose_arcee(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_bert(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_bloom(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_cohere(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_cohere2(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_deepseek_v2(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_deepseek_v3(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_distilbert(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_dots1(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_ernie4_5(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_ernie4_5_moe(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_exaone4(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_falcon(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_gemma(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_gemma2(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_gemma3(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_glm(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_glm4(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_glm4_moe(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_gpt2(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_gpt_neox(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_gpt_oss(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_granite(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_granitemoe(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_llama(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_llama4(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_minimax_m2(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_mixtral(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_nemotron(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_olmo(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_olmo2(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_olmo3(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_olmoe(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_opt(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_phi(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_phi3(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_qwen2(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_qwen2_moe(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_qwen3(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_qwen3_moe(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_roberta(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_seed_oss(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_smollm3(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_stablelm(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_starcoder2(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_t5(cleave_composer *c, const cleave_config *config);
const char *cleave_compose_vit(cleave_composer *c, const cleave_config *config);

#endif
