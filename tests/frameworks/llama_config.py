"""A config.json of Llama's sort, for models in PyTorch and in JAX."""
LLAMA = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu",
         "max_position_embeddings": 64, "tie_word_embeddings": False}

# The same with experts, as of Qwen2's sort.
MIXTURE = {**LLAMA, "model_type": "qwen2_moe", "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
           "shared_expert_intermediate_size": 40, "norm_topk_prob": True}
