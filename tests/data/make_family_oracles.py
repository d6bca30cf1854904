#!/usr/bin/env python3
"""Makes the oracles of language models by their config.json: tiny configurations, and what the
framework's own classes compute for them.

For each model NAME four files are written to FOLDER (default: oracles/ beside this file):
  NAME.json                   the configuration
  NAME.weights.safetensors    where training starts
  NAME.io.safetensors         the inputs, and `targets`
  NAME.expect.safetensors     `loss_steps` [3] and `after3/PARAMETER`: three steps of SGD with a
                              learning rate of 0.1 on mean softmax cross-entropy, the same batch
                              each time; in double precision where the classes do not go back to f32
Parameters have the names of checkpoints.  Needs PyTorch and transformers (made with 2.15 and 5.23).
The tests only need the files.
usage: make_family_oracles.py [FOLDER [NAME...]]
"""
import json
import os
import re
import sys

import numpy
import torch
import transformers
from torch.nn import functional as F

from make_oracles import write_safetensors

SMALL = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, vocab_size=24)
ROTARY = dict(**SMALL, intermediate_size=20, num_key_value_heads=2, max_position_embeddings=64)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, rope_theta=100.0)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32, rope_theta=50.0)
EXPERTS = dict(**ROTARY, num_experts_per_tok=2)
NO_DROPOUT = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
IMAGES = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, image_size=12, patch_size=4)
LABELS = {str(i): str(i) for i in range(5)}
CAUSAL = transformers.AutoModelForCausalLM
CLASSES = transformers.AutoModelForImageClassification
MASKED = transformers.AutoModelForMaskedLM
SIDED = ("bart", "blenderbot", "blenderbot-small", "m2m_100", "marian", "mbart", "mt5", "pegasus", "t5", "umt5", "whisper")  # kinds that have an encoder and a decoder
# One side of a model of images and texts; of it is taken what it gives, an embedding.
TOWERS = {"clip_text_model": transformers.CLIPTextModelWithProjection,
          "clip_vision_model": transformers.CLIPVisionModelWithProjection,
          "siglip_text_model": transformers.SiglipTextModel, "siglip_vision_model": transformers.SiglipVisionModel}
# What is of texts in a model of images and texts, where a batch has no image.
SEES = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=2, out_hidden_size=16)
TEXTS = {"qwen2_5_vl_text": ("Qwen2_5_VL", dict(**SEES, fullatt_block_indexes=[0])),
         "qwen3_vl_text": ("Qwen3VL", dict(**SEES, deepstack_visual_indexes=[])),
         "qwen3_vl_moe_text": ("Qwen3VLMoe", dict(**SEES, deepstack_visual_indexes=[]))}
BALANCING = ("e_score_correction_bias", "expert_bias")  # of routers, and not trained
SEQUENCES = transformers.AutoModelForSeq2SeqLM
SIDES = dict(d_model=16, encoder_layers=1, encoder_attention_heads=4, encoder_ffn_dim=20, decoder_layers=2,
             decoder_attention_heads=4, decoder_ffn_dim=20, dropout=0.0, attention_dropout=0.0, vocab_size=24)
MODELS = {
    "family_bart": (SEQUENCES, dict(model_type="bart", **SIDES, max_position_embeddings=8)),
    "family_mbart": (SEQUENCES, dict(model_type="mbart", **SIDES, max_position_embeddings=8, scale_embedding=True)),
    "family_pegasus": (SEQUENCES, dict(model_type="pegasus", **SIDES, scale_embedding=True, pad_token_id=0)),
    "family_m2m_100": (SEQUENCES, dict(model_type="m2m_100", **SIDES, encoder_layerdrop=0.0, decoder_layerdrop=0.0)),
    "family_whisper": (transformers.AutoModelForSpeechSeq2Seq,
                       dict(model_type="whisper", **SIDES, num_mel_bins=5, max_source_positions=10,
                            max_target_positions=8, pad_token_id=0, bos_token_id=0, eos_token_id=0,
                            decoder_start_token_id=0)),
    "family_marian": (SEQUENCES, dict(model_type="marian", **SIDES, max_position_embeddings=8, scale_embedding=True,
                                      activation_function="silu", pad_token_id=0, decoder_start_token_id=0)),
    "family_xglm": (CAUSAL, dict(model_type="xglm", d_model=16, num_layers=2, attention_heads=4, ffn_dim=20,
                                 vocab_size=24, dropout=0.0, attention_dropout=0.0)),
    "family_biogpt": (CAUSAL, dict(model_type="biogpt", **SMALL, intermediate_size=20, max_position_embeddings=8,
                                   **NO_DROPOUT)),
    "family_llama": (CAUSAL, dict(model_type="llama", **ROTARY, rope_scaling=LLAMA3, attention_bias=True,
                                  mlp_bias=True)),
    "family_exaone": (CAUSAL, dict(model_type="exaone", **ROTARY, tie_word_embeddings=True, rope_scaling=LLAMA3)),
    "family_iquestcoder": (CAUSAL, dict(model_type="iquestcoder", **ROTARY, head_dim=6)),
    "family_mistral": (CAUSAL, dict(model_type="mistral", **ROTARY, head_dim=6, sliding_window=3)),
    "family_qwen2": (CAUSAL, dict(model_type="qwen2", **ROTARY, tie_word_embeddings=True, use_sliding_window=True,
                                  sliding_window=4, max_window_layers=1)),
    "family_qwen2_5_vl": (None, dict(model_type="qwen2_5_vl_text", **ROTARY, rope_scaling=dict(
        type="mrope", mrope_section=[1, 1, 0]))),
    "family_qwen3_vl": (None, dict(model_type="qwen3_vl_text", **ROTARY, head_dim=8, rope_theta=50.0, rope_scaling=dict(
        rope_type="default", mrope_section=[2, 1, 1], mrope_interleaved=True))),
    "family_qwen3_vl_moe": (None, dict(model_type="qwen3_vl_moe_text", **EXPERTS, head_dim=4, num_experts=4,
                                       moe_intermediate_size=12, rope_scaling=dict(rope_type="default",
                                                                                   mrope_section=[1, 1, 0]))),
    "family_qwen3": (CAUSAL, dict(model_type="qwen3", **ROTARY, head_dim=8, rope_scaling=YARN)),
    "family_dbrx": (CAUSAL, dict(model_type="dbrx", d_model=16, n_heads=4, n_layers=2, vocab_size=24, max_seq_len=64,
                                 rope_parameters=dict(rope_type="default", rope_theta=50.0),
                                 attn_config=dict(kv_n_heads=2, clip_qkv=0.5, rope_theta=50.0),
                                 ffn_config=dict(ffn_hidden_size=12, moe_num_experts=4, moe_top_k=2))),
    "family_mixtral": (CAUSAL, dict(model_type="mixtral", **EXPERTS, num_local_experts=4)),
    "family_mixtral_capacity": (CAUSAL, dict(model_type="mixtral", **EXPERTS, num_local_experts=4, expert_capacity=2)),
    "family_qwen3_moe": (CAUSAL, dict(model_type="qwen3_moe", **EXPERTS, head_dim=8, num_experts=6,
                                      moe_intermediate_size=12, decoder_sparse_step=2)),
    "family_qwen2_moe": (CAUSAL, dict(model_type="qwen2_moe", **EXPERTS, num_experts=4, moe_intermediate_size=12,
                                      shared_expert_intermediate_size=14)),
    "family_olmoe": (CAUSAL, dict(model_type="olmoe", **EXPERTS, num_experts=4, clip_qkv=1.5, pad_token_id=None)),
    "family_glm4_moe": (CAUSAL, dict(model_type="glm4_moe", **EXPERTS, head_dim=8, n_routed_experts=6, n_group=3,
                                     topk_group=2, n_shared_experts=2, moe_intermediate_size=12,
                                     first_k_dense_replace=1, attention_bias=True, use_qk_norm=True,
                                     routed_scaling_factor=1.5)),
    "family_glm4_moe_lite": (CAUSAL, dict(model_type="glm4_moe_lite", **{**EXPERTS, "num_key_value_heads": 4},
                                          n_routed_experts=6, n_shared_experts=1, moe_intermediate_size=12,
                                          q_lora_rank=10, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=6,
                                          v_head_dim=5)),
    "family_gpt_oss": (CAUSAL, dict(model_type="gpt_oss", **EXPERTS, head_dim=6, num_local_experts=4, sliding_window=3,
                                    swiglu_limit=0.8, rope_scaling={**YARN, "truncate": False})),
    "family_granitemoe": (CAUSAL, dict(model_type="granitemoe", **EXPERTS, num_local_experts=4,
                                       embedding_multiplier=1.5, residual_multiplier=0.5, attention_multiplier=0.3,
                                       logits_scaling=2.0)),
    "family_minimax_m2": (CAUSAL, dict(model_type="minimax_m2", **EXPERTS, head_dim=8, num_local_experts=4,
                                       rotary_dim=4)),
    "family_ernie4_5_moe": (CAUSAL, dict(model_type="ernie4_5_moe", **ROTARY, moe_k=2, moe_num_experts=4,
                                         pad_token_id=None, moe_num_shared_experts=1, moe_intermediate_size=12,
                                         use_bias=True)),
    "family_dots1": (CAUSAL, dict(model_type="dots1", **EXPERTS, head_dim=8, n_routed_experts=6, n_group=3,
                                  topk_group=2, n_shared_experts=2, moe_intermediate_size=12, first_k_dense_replace=1,
                                  routed_scaling_factor=1.5, norm_topk_prob=True, sliding_window=4,
                                  max_window_layers=1)),
    "family_llama4": (CAUSAL, dict(model_type="llama4_text", **ROTARY, head_dim=8, intermediate_size_mlp=14,
                                   num_local_experts=4, interleave_moe_layer_step=2, no_rope_layers=[1, 0],
                                   floor_scale=2, rope_scaling={**LLAMA3, "high_freq_factor": 1.0},
                                   pad_token_id=None)),
    "family_bloom": (CAUSAL, dict(model_type="bloom", hidden_size=18, n_layer=2, n_head=3, vocab_size=24)),
    "family_falcon": (CAUSAL, dict(model_type="falcon", **SMALL, multi_query=True, bias=True, ffn_hidden_size=20)),
    "family_falcon_groups": (CAUSAL, dict(model_type="falcon", **SMALL, new_decoder_architecture=True,
                                          num_kv_heads=2)),
    "family_cohere": (CAUSAL, dict(model_type="cohere", **ROTARY, pad_token_id=None, logit_scale=0.25,
                                   attention_bias=True)),
    "family_stablelm": (CAUSAL, dict(model_type="stablelm", **{**ROTARY, "num_attention_heads": 2,
                                                               "num_key_value_heads": 1}, use_qkv_bias=True)),
    "family_stablelm_norms": (CAUSAL, dict(model_type="stablelm", **{**ROTARY, "num_attention_heads": 2,
                                                                     "num_key_value_heads": 1}, qk_layernorm=True,
                                           use_parallel_residual=True)),
    "family_persimmon": (CAUSAL, dict(model_type="persimmon", **{**SMALL, "num_attention_heads": 2},
                                      intermediate_size=20)),
    "family_granitemoeshared": (CAUSAL, dict(model_type="granitemoeshared", **EXPERTS, num_local_experts=4,
                                             shared_intermediate_size=12, embedding_multiplier=1.5,
                                             residual_multiplier=0.5, attention_multiplier=0.3, logits_scaling=2.0)),
    "family_olmo": (CAUSAL, dict(model_type="olmo", **ROTARY, pad_token_id=None, clip_qkv=0.5)),
    "family_deepseek_v2": (CAUSAL, dict(model_type="deepseek_v2",
                                        **{**EXPERTS, "num_key_value_heads": 4, "num_experts_per_tok": 3},
                                        n_routed_experts=6, n_group=3, topk_group=2, n_shared_experts=2,
                                        topk_method="group_limited_greedy", moe_intermediate_size=12,
                                        first_k_dense_replace=1, q_lora_rank=None, kv_lora_rank=8, qk_rope_head_dim=4,
                                        qk_nope_head_dim=6, v_head_dim=5, routed_scaling_factor=1.5,
                                        rope_scaling={**YARN, "mscale": 0.7, "mscale_all_dim": 0.7})),
    "family_deepseek_v3": (CAUSAL, dict(model_type="deepseek_v3", **{**EXPERTS, "num_key_value_heads": 4},
                                        n_routed_experts=6, n_group=3, topk_group=2, n_shared_experts=1,
                                        moe_intermediate_size=12, first_k_dense_replace=1, q_lora_rank=10,
                                        kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=5,
                                        rope_scaling={**YARN, "mscale": 1.0, "mscale_all_dim": 0.5})),
    "family_gemma": (CAUSAL, dict(model_type="gemma", **{**ROTARY, "num_key_value_heads": 1}, head_dim=6,
                                  pad_token_id=None, tie_word_embeddings=True)),
    "family_gemma2": (CAUSAL, dict(model_type="gemma2", **ROTARY, head_dim=6, pad_token_id=None,
                                   tie_word_embeddings=True, sliding_window=3, query_pre_attn_scalar=5,
                                   attn_logit_softcapping=2.0, final_logit_softcapping=1.5)),
    "family_gemma3": (CAUSAL, dict(model_type="gemma3_text", **ROTARY, head_dim=6, pad_token_id=None,
                                   tie_word_embeddings=True, sliding_window=3, sliding_window_pattern=2,
                                   query_pre_attn_scalar=5, rope_theta=1000.0, rope_local_base_freq=30.0,
                                   rope_scaling=dict(rope_type="linear", factor=4.0))),
    "family_olmo2": (CAUSAL, dict(model_type="olmo2", **ROTARY, tie_word_embeddings=False, pad_token_id=None)),
    "family_olmo3": (CAUSAL, dict(model_type="olmo3", **ROTARY, pad_token_id=None, sliding_window=3,
                                  layer_types=["sliding_attention", "full_attention"],
                                  rope_parameters=dict(full_attention=YARN,
                                                       sliding_attention=dict(rope_type="default", rope_theta=50.0)))),
    "family_exaone4": (CAUSAL, dict(model_type="exaone4", **ROTARY, sliding_window=3, sliding_window_pattern=2)),
    "family_cohere2": (CAUSAL, dict(model_type="cohere2", **ROTARY, pad_token_id=None, sliding_window=3,
                                    sliding_window_pattern=2, logit_scale=0.5)),
    "family_glm": (CAUSAL, dict(model_type="glm", **ROTARY, head_dim=8, pad_token_id=None)),
    "family_glm4": (CAUSAL, dict(model_type="glm4", **ROTARY, head_dim=8, pad_token_id=None, attention_bias=False,
                                 rms_norm_eps=1e-5)),
    "family_ernie4_5": (CAUSAL, dict(model_type="ernie4_5", **ROTARY, head_dim=6, pad_token_id=None, use_bias=True)),
    "family_seed_oss": (CAUSAL, dict(model_type="seed_oss", **ROTARY, head_dim=6, attention_dropout=0.0,
                                     residual_dropout=0.0, attention_out_bias=True, mlp_bias=True)),
    "family_arcee": (CAUSAL, dict(model_type="arcee", **ROTARY, mlp_bias=True)),
    "family_nemotron": (CAUSAL, dict(model_type="nemotron", **ROTARY, head_dim=8, attention_bias=True)),
    "family_ministral": (CAUSAL, dict(model_type="ministral", **ROTARY, head_dim=6, sliding_window=3,
                                      layer_types=["full_attention", "sliding_attention"])),
    "family_ministral3": (CAUSAL, dict(model_type="ministral3", **ROTARY, head_dim=8, pad_token_id=None,
                                       rope_parameters={**YARN, "original_max_position_embeddings": 2,
                                                        "llama_4_scaling_beta": 0.3, "mscale": 1.0,
                                                        "mscale_all_dim": 1.0})),
    "family_granite": (CAUSAL, dict(model_type="granite", **ROTARY, embedding_multiplier=1.5, residual_multiplier=0.5,
                                    attention_multiplier=0.3, logits_scaling=2.0, mlp_bias=True)),
    "family_smollm3": (CAUSAL, dict(model_type="smollm3", **ROTARY, no_rope_layers=[0, 1], pad_token_id=None,
                                    tie_word_embeddings=True)),
    "family_starcoder2": (CAUSAL, dict(model_type="starcoder2", **ROTARY, sliding_window=4,
                                       tie_word_embeddings=True)),
    "family_phi3": (CAUSAL, dict(model_type="phi3", **{**ROTARY, "num_attention_heads": 2, "num_key_value_heads": 1},
                                 sliding_window=4, tie_word_embeddings=False, pad_token_id=None,
                                 partial_rotary_factor=0.5)),
    "family_phi3_longrope": (CAUSAL, dict(model_type="phi3", **{**ROTARY, "num_attention_heads": 2},
                                          tie_word_embeddings=True, pad_token_id=None, partial_rotary_factor=0.75,
                                          original_max_position_embeddings=4, rope_scaling=dict(
                                              type="longrope", short_factor=[1.0, 1.0, 1.0],
                                              long_factor=[1.0, 1.5, 4.0]))),
    "family_phi": (CAUSAL, dict(model_type="phi", **{**ROTARY, "num_attention_heads": 2}, qk_layernorm=True,
                                tie_word_embeddings=False)),
    "family_gpt_neox": (CAUSAL, dict(model_type="gpt_neox", **{**SMALL, "num_attention_heads": 2}, rotary_pct=0.5,
                                     intermediate_size=20, tie_word_embeddings=False)),
    "family_gpt2": (CAUSAL, dict(model_type="gpt2", n_embd=16, n_layer=2, n_head=4, n_positions=12, vocab_size=24,
                                 attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0)),
    "family_gpt_bigcode": (CAUSAL, dict(model_type="gpt_bigcode", n_embd=16, n_layer=2, n_head=4, n_positions=12,
                                        vocab_size=24, attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0)),
    "family_opt": (CAUSAL, dict(model_type="opt", **SMALL, ffn_dim=20, max_position_embeddings=12, dropout=0.0)),
    "family_opt_after": (CAUSAL, dict(model_type="opt", **SMALL, ffn_dim=20, max_position_embeddings=12, dropout=0.0,
                                      word_embed_proj_dim=10, do_layer_norm_before=False, tie_word_embeddings=False)),
    "family_distilbert": (MASKED, dict(model_type="distilbert", dim=16, n_layers=2, n_heads=4, hidden_dim=20,
                                       vocab_size=24, max_position_embeddings=8, dropout=0.0, attention_dropout=0.0)),
    "family_bert": (MASKED, dict(model_type="bert", **SMALL, intermediate_size=20, max_position_embeddings=8,
                                 pad_token_id=None, **NO_DROPOUT)),
    "family_roberta": (MASKED, dict(model_type="roberta", **SMALL, intermediate_size=20, max_position_embeddings=9,
                                    type_vocab_size=1, pad_token_id=1, tie_word_embeddings=True, **NO_DROPOUT)),
    "family_xlm_roberta": (MASKED, dict(model_type="xlm-roberta", **SMALL, intermediate_size=20,
                                        max_position_embeddings=9, type_vocab_size=1, pad_token_id=1,
                                        tie_word_embeddings=True, **NO_DROPOUT)),
    "family_vit": (CLASSES, dict(model_type="vit", **IMAGES, intermediate_size=20, qkv_bias=False, id2label=LABELS)),
    "family_deit": (CLASSES, dict(model_type="deit", **IMAGES, intermediate_size=20, id2label=LABELS,
                                  architectures=["DeiTForImageClassificationWithTeacher"])),
    "family_dinov2": (CLASSES, dict(model_type="dinov2", **IMAGES, id2label=LABELS, layerscale_value=0.5)),
    "family_dinov2_gated": (CLASSES, dict(model_type="dinov2_with_registers", **{**IMAGES, "image_size": 14},
                                          id2label=LABELS, num_register_tokens=2, use_swiglu_ffn=True)),
    "family_clip_text": (TOWERS["clip_text_model"],
                         dict(model_type="clip_text_model", **SMALL, intermediate_size=20, max_position_embeddings=8,
                              projection_dim=10, eos_token_id=23)),
    "family_clip_vision": (TOWERS["clip_vision_model"],
                           dict(model_type="clip_vision_model", **IMAGES, intermediate_size=20, projection_dim=10)),
    "family_siglip_text": (TOWERS["siglip_text_model"],
                           dict(model_type="siglip_text_model", **SMALL, intermediate_size=20,
                                max_position_embeddings=8)),
    "family_siglip_vision": (TOWERS["siglip_vision_model"],
                             dict(model_type="siglip_vision_model", **{**IMAGES, "image_size": 14},
                                  intermediate_size=20)),
    "family_helium": (CAUSAL, dict(model_type="helium", **ROTARY, head_dim=4, pad_token_id=None, attention_bias=True)),
    "family_hunyuan_v1_dense": (CAUSAL, dict(model_type="hunyuan_v1_dense", **ROTARY, head_dim=8, pad_token_id=None,
                                             attention_bias=True,
                                             rope_scaling=dict(type="dynamic", alpha=7.0, factor=1.0))),
    "family_hunyuan_v1_moe": (CAUSAL, dict(model_type="hunyuan_v1_moe", **ROTARY, head_dim=8, pad_token_id=None,
                                           num_experts=4, moe_topk=[2, 2])),
    "family_gptj": (CAUSAL, dict(model_type="gptj", n_embd=16, n_layer=2, n_head=2, n_positions=12, vocab_size=24,
                                 rotary_dim=4)),
    "family_codegen": (CAUSAL, dict(model_type="codegen", n_embd=32, n_layer=2, n_head=8, n_positions=12,
                                    vocab_size=24, rotary_dim=2, n_inner=20)),
    "family_gpt_neo": (CAUSAL, dict(model_type="gpt_neo", hidden_size=16, num_layers=3, num_heads=4, vocab_size=24,
                                    intermediate_size=20, max_position_embeddings=12, window_size=3,
                                    attention_types=[[["global", "local"], 1], [["local"], 1]])),
    "family_mpt": (CAUSAL, dict(model_type="mpt", d_model=18, n_layers=2, n_heads=3, vocab_size=24,
                                attn_config=dict(clip_qkv=0.5, softmax_scale=0.3))),
    "family_electra": (MASKED, dict(model_type="electra", **SMALL, embedding_size=10, intermediate_size=20,
                                    max_position_embeddings=8, pad_token_id=None, **NO_DROPOUT)),
    "family_albert": (MASKED, dict(model_type="albert", **{**SMALL, "num_hidden_layers": 3}, embedding_size=10,
                                   intermediate_size=20, max_position_embeddings=8, pad_token_id=None)),
    "family_mt5": (SEQUENCES,
                   dict(model_type="mt5", d_model=16, d_kv=6, d_ff=20, num_layers=1, num_decoder_layers=2,
                        num_heads=3, vocab_size=24, dropout_rate=0.0, relative_attention_num_buckets=4,
                        relative_attention_max_distance=5, pad_token_id=0)),
    "family_apertus": (CAUSAL, dict(model_type="apertus", **ROTARY, pad_token_id=None, attention_bias=True,
                                    rope_scaling=LLAMA3)),
    "family_eurobert": (MASKED, dict(model_type="eurobert", **ROTARY, pad_token_id=None, mlp_bias=True)),
    "family_hyperclovax": (CAUSAL, dict(model_type="hyperclovax", **ROTARY, embedding_multiplier=1.5,
                                        residual_multiplier=0.5, logits_scaling=2.0)),
    "family_minicpm3": (CAUSAL, dict(model_type="minicpm3", **{**ROTARY, "num_key_value_heads": 4}, q_lora_rank=10,
                                     kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=6, pad_token_id=None,
                                     scale_emb=3.0, dim_model_base=4)),
    "family_flex_olmo": (CAUSAL, dict(model_type="flex_olmo", **EXPERTS, num_experts=4, pad_token_id=None)),
    "family_afmoe": (CAUSAL, dict(model_type="afmoe", **EXPERTS, head_dim=6, num_experts=4, moe_intermediate_size=12,
                                  num_shared_experts=1, num_dense_layers=1, route_scale=1.5, sliding_window=3,
                                  global_attn_every_n_layers=2, mup_enabled=True)),
    "family_exaone_moe": (CAUSAL, dict(model_type="exaone_moe", **EXPERTS, num_experts=4, moe_intermediate_size=12,
                                       sliding_window=3, sliding_window_pattern=2, mlp_layer_types=["sparse", "dense"],
                                       pad_token_id=None)),
    "family_mpnet": (MASKED, dict(model_type="mpnet", **SMALL, intermediate_size=20, max_position_embeddings=9,
                                  pad_token_id=1, **NO_DROPOUT)),
    "family_megatron_bert": (MASKED, dict(model_type="megatron-bert", **SMALL, intermediate_size=20,
                                          max_position_embeddings=8, pad_token_id=None, **NO_DROPOUT)),
    "family_esm": (MASKED, dict(model_type="esm", **SMALL, intermediate_size=20, pad_token_id=0, mask_token_id=9,
                                position_embedding_type="rotary", token_dropout=True, emb_layer_norm_before=False,
                                **NO_DROPOUT)),
    "family_deberta_v2": (MASKED, dict(model_type="deberta-v2", **SMALL, intermediate_size=20, relative_attention=True,
                                       max_position_embeddings=16, position_buckets=4, norm_rel_ebd="layer_norm",
                                       share_att_key=True, pos_att_type="p2c|c2p", position_biased_input=False,
                                       pad_token_id=0, **NO_DROPOUT)),
    "family_deberta_v2_apart": (MASKED, dict(model_type="deberta-v2", **{**SMALL, "num_hidden_layers": 1},
                                             intermediate_size=20, relative_attention=True, max_position_embeddings=8,
                                             pos_att_type=["p2c", "c2p"], pad_token_id=0, **NO_DROPOUT)),
    "family_umt5": (SEQUENCES,
                    dict(model_type="umt5", d_model=16, d_kv=6, d_ff=20, num_layers=2, num_decoder_layers=2,
                         num_heads=3, vocab_size=24, dropout_rate=0.0, relative_attention_num_buckets=4,
                         relative_attention_max_distance=5, pad_token_id=0)),
    "family_blenderbot": (SEQUENCES, dict(model_type="blenderbot", **SIDES, max_position_embeddings=8)),
    "family_blenderbot_small": (SEQUENCES, dict(model_type="blenderbot-small", **SIDES, max_position_embeddings=8,
                                                scale_embedding=True)),
    "family_jais2": (CAUSAL, dict(model_type="jais2", **ROTARY, head_dim=6, pad_token_id=None)),
    "family_vaultgemma": (CAUSAL, dict(model_type="vaultgemma", **ROTARY, head_dim=6, pad_token_id=None,
                                       tie_word_embeddings=True, sliding_window=3, query_pre_attn_scalar=5,
                                       attn_logit_softcapping=2.0, final_logit_softcapping=1.5)),
    "family_youtu": (CAUSAL, dict(model_type="youtu", **{**ROTARY, "num_key_value_heads": 4}, q_lora_rank=10,
                                  kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=5)),
    "family_solar_open": (CAUSAL, dict(model_type="solar_open", **EXPERTS, head_dim=8, n_routed_experts=6, n_group=3,
                                       topk_group=2, n_shared_experts=2, moe_intermediate_size=12,
                                       routed_scaling_factor=1.5)),
    "family_modernbert": (MASKED, dict(model_type="modernbert", **SMALL, intermediate_size=20, pad_token_id=None,
                                       max_position_embeddings=64, global_attn_every_n_layers=2, local_attention=4,
                                       global_rope_theta=100.0, local_rope_theta=20.0)),
    "family_modernbert_decoder": (CAUSAL, dict(
        model_type="modernbert-decoder", **SMALL, intermediate_size=20, pad_token_id=0, max_position_embeddings=64,
        global_attn_every_n_layers=2, local_attention=4, global_rope_theta=100.0, local_rope_theta=20.0)),
    "family_granitemoehybrid": (CAUSAL, dict(model_type="granitemoehybrid", **ROTARY, num_local_experts=0,
                                             shared_intermediate_size=12, embedding_multiplier=1.5, mamba_n_heads=4,
                                             residual_multiplier=0.5, attention_multiplier=0.3, logits_scaling=2.0,
                                             position_embedding_type="rope",
                                             layer_types=["full_attention", "full_attention"])),
    "family_lfm2": (CAUSAL, dict(model_type="lfm2", **ROTARY, full_attn_idxs=[1], block_multiple_of=8,
                                 block_ffn_dim_multiplier=1.3, rope_theta=50.0)),
    "family_lfm2_moe": (CAUSAL, dict(model_type="lfm2_moe", **EXPERTS, num_experts=4, moe_intermediate_size=12,
                                     num_dense_layers=1, layer_types=["conv", "full_attention"],
                                     routed_scaling_factor=1.5)),
    "family_nomic_bert": (MASKED, dict(model_type="nomic_bert", **SMALL, intermediate_size=20, **NO_DROPOUT)),
    "family_jina_embeddings_v3": (MASKED, dict(model_type="jina_embeddings_v3", **SMALL, intermediate_size=20,
                                               max_position_embeddings=8, pad_token_id=1, **NO_DROPOUT)),
    "family_data2vec_text": (MASKED, dict(model_type="data2vec-text", **SMALL, intermediate_size=20, type_vocab_size=1,
                                          max_position_embeddings=9, pad_token_id=1, **NO_DROPOUT)),
    "family_t5": (SEQUENCES,
                  dict(model_type="t5", d_model=16, d_kv=6, d_ff=20, num_layers=2, num_decoder_layers=1, num_heads=3,
                       vocab_size=24, dropout_rate=0.0, relative_attention_num_buckets=4,
                       relative_attention_max_distance=5, feed_forward_proj="gated-gelu", pad_token_id=0)),
}


def checkpoint_name(kind, name):
    """The framework's newest classes call some modules otherwise than its checkpoints do."""
    if kind == "gpt_neox":
        return re.sub("^lm_head", "embed_out", name)
    if kind in ("jina_embeddings_v3", "xlm-roberta"):  # tied: one parameter, of which the classes name the other place
        return name.replace("lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight")
    if kind.startswith("qwen2_5_vl"):
        return name.replace("model.language_model.", "model.")
    if kind.startswith("siglip"):
        return f"{kind.split('_')[1]}_model.{name}"
    if kind.startswith("dinov2"):
        for new, old in [("attention.q_proj", "attention.attention.query"),
                         ("attention.k_proj", "attention.attention.key"),
                         ("attention.v_proj", "attention.attention.value"),
                         ("attention.o_proj", "attention.output.dense"), ("mlp.down_proj", "mlp.weights_out")]:
            name = name.replace(new, old)
    if kind in ("deit", "vit"):
        for new, old in [(f"{kind}.layers", f"{kind}.encoder.layer"), ("attention.q_proj", "attention.attention.query"),
                         ("attention.k_proj", "attention.attention.key"),
                         ("attention.v_proj", "attention.attention.value"),
                         ("attention.o_proj", "attention.output.dense"), ("mlp.fc1", "intermediate.dense"),
                         ("mlp.fc2", "output.dense")]:
            name = name.replace(new, old)
    return name


def inputs_of(kind, fields, batch=4):
    """Ids that no family takes for padding, whose row it would not train."""
    ids = lambda: torch.randint(2, 24, (batch, 6))
    if "image_size" in fields:
        side = fields["image_size"]
        return {"pixel_values": torch.randn(batch, 3, side, side)}, torch.randint(5, (batch,))
    if kind in TOWERS:  # a text ends with its last token alone, 23 of CLIP's
        texts = torch.cat([torch.randint(2, 23, (batch, 5)), torch.full((batch, 1), 23)], 1)
        return {"input_ids": texts}, torch.randint(10, (batch,))
    data = {"input_features": torch.randn(batch, 5, 20)} if kind == "whisper" else {"input_ids": ids()}
    if kind in ("albert", "bert", "electra", "megatron-bert", "nomic_bert"):
        data["token_type_ids"] = torch.randint(2, (batch, 6))
    if kind in SIDED:
        data["decoder_input_ids"] = ids()
    return data, ids()


def drop(module, capacity):
    """Tokens find `capacity` rows at each expert, in their order; the framework's classes have room for all."""
    route = module.forward

    def forward(x):
        logits, weights, choices = route(x)
        chosen = F.one_hot(choices, module.num_experts).sum(1).reshape(-1, 6, module.num_experts)  # batch, length, experts
        position = (chosen.cumsum(1) - chosen).flatten(0, 1).gather(1, choices)
        print("dropped", (position >= capacity).sum().item(), "of", position.numel())
        return logits, weights * (position < capacity), choices

    module.forward = forward


def tensors_of(kind, named):
    """By the names of checkpoints, some of which have one for two of the newest classes'; without what only images, or
    only hidden patches or other losses, go through."""
    unused = ("mask_token", ".visual.", ".contact_head.")
    tensors = {checkpoint_name(kind, n): t for n, t in named if not any(part in n for part in unused)}
    for name in [n for n in tensors if kind.startswith("dinov2") and "mlp.gate_proj" in n]:
        parts = [tensors.pop(name.replace("gate_proj", side)) for side in ("gate_proj", "up_proj")]
        tensors[name.replace("gate_proj", "weights_in")] = torch.cat(parts)
    return tensors


def is_kept(kind, name):
    """A buffer of checkpoints: of all but Marian's the bias of logits is zeros."""
    return name.endswith(BALANCING) or (kind == "marian" and name == "final_logits_bias")


def values_of(model, kind):
    """Parameters, and what is kept beside them and not trained."""
    kept = [(n, b) for n, b in [*model.named_buffers(), *model.named_parameters()] if is_kept(kind, n)]
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    return {n: t.detach().float().numpy().copy() for n, t in tensors_of(kind, trained + kept).items()}


def configuration(kind, fields):
    if kind not in TEXTS:
        return transformers.AutoConfig.for_model(kind, **fields)
    name, images = TEXTS[kind]
    return getattr(transformers, name + "Config")(text_config=fields, vision_config=images, tie_word_embeddings=False)


def made(make, config, **options):
    make = make or getattr(transformers, type(config).__name__.replace("Config", "ForConditionalGeneration"))
    return (make._from_config if issubclass(make, torch.nn.Module) else make.from_config)(config, **options)


def oracle(name, make, config, folder):
    torch.manual_seed(7)
    fields = dict(config)
    kind, capacity = fields.pop("model_type"), fields.pop("expert_capacity", None)
    config_of = configuration(kind, fields)
    config_of._experts_implementation = "eager"
    model = made(make, config_of, attn_implementation="eager")
    model.train()
    with torch.no_grad():  # every parameter takes part, those that start at 0 or 1 too
        for p in model.parameters():
            p += 0.1 * torch.randn_like(p) * p.requires_grad
        for n, b in [*model.named_buffers(), *model.named_parameters()]:
            if is_kept(kind, n):
                b += 0.1 * torch.randn_like(b)
    for module in model.modules():
        if capacity is not None and type(module).__name__.endswith("TopKRouter"):
            drop(module, capacity)
    data, targets = inputs_of(kind, fields)
    write_safetensors(os.path.join(folder, f"{name}.weights.safetensors"), values_of(model, kind))
    if kind != "xglm":  # whose mask is no double
        model = model.double()
    losses, optimizer = [], torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        given = model(**{n: v.double() if v.is_floating_point() else v for n, v in data.items()})
        logits = next(given[n] for n in ("logits", "image_embeds", "text_embeds", "pooler_output") if n in given)
        loss = F.cross_entropy(logits.transpose(1, 2) if logits.dim() == 3 else logits, targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    expect = {f"after3/{n}": value for n, value in values_of(model, kind).items()}
    expect["loss_steps"] = numpy.array(losses, "float32")
    write_safetensors(os.path.join(folder, f"{name}.expect.safetensors"), expect)
    io = {n: v.numpy() for n, v in data.items()}
    io["targets"] = targets.numpy()
    write_safetensors(os.path.join(folder, f"{name}.io.safetensors"), io)
    with open(os.path.join(folder, f"{name}.json"), "w") as file:
        json.dump(config, file, indent=2)
        file.write("\n")
    print(name, [round(value, 5) for value in losses], sum(p.numel() for p in model.parameters()), "parameters")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "oracles")
    for name, (make, config) in MODELS.items():
        if len(sys.argv) <= 2 or name in sys.argv[2:]:
            oracle(name, make, config, folder)


if __name__ == "__main__":
    main()
