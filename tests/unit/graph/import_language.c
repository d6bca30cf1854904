/* What language models are fused into, and which of a file's floats are masks. */
#include "imported.h"

TestSuite(import_language, .fini = tear_down);

/* Width 32, 4 heads of 8 that share 2 heads of keys, 48 hidden units, 10 positions. */
static const char llama[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 32, \"intermediate_size\": 48, "
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"vocab_size\": 11, \"max_position_embeddings\": 16, \"rms_norm_eps\": 1e-6, "
    "\"tie_word_embeddings\": false, \"hidden_act\": \"silu\"}";

/* Around the blocks are the embedding, the last norm, the logits and the loss. */
Test(import_language, a_block_of_llama_is_twelve_operators) {
    static const char *const axes[][2] = {{"input_layernorm", "n=3 t=10 k=32"},
                                          {"self_attn.q_proj", "b0=3 m=10 h=4 d=8 c=32"},
                                          {"self_attn.k_proj", "b0=3 m=10 h=2 d=8 c=32"},
                                          {"self_attn.v_proj", "b0=3 m=10 k=16 c=32"},
                                          {"self_attn", "n=3 h=2 g=2 q=10 k=10"},
                                          {"self_attn.o_proj", "b0=3 m=10 k=32 h=4 d=8"},
                                          {"attended", "n=3 t=10 k=32"},
                                          {"post_attention_layernorm", "n=3 t=10 k=32"},
                                          {"mlp.gate_proj", "b0=3 m=10 k=48 c=32"},
                                          {"mlp.up_proj", "b0=3 m=10 k=48 c=32"},
                                          {"mlp.down_proj", "b0=3 m=10 k=32 c=48"},
                                          {"output", "n=3 t=10 k=32"}};
    import_config(llama, 3, 10);
    cr_expect_eq(model.n_operators, 2 * 12 + 4, "%d operators", model.n_operators);
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        char name[128];
        snprintf(name, sizeof name, "model.layers.1.%s", axes[i][0]);
        expect_axes(name, axes[i][1]);
    }
}

static cleave_tensor_kind kind_of_addend(const float *values) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    initializer(&graph, "m", 1, (int64_t[]){3}, 1, values, 3 * sizeof *values);
    node(&graph, "Add", "add", "x m", "y", NULL);
    import(&graph, 13, 1, false);
    return find_tensor("m")->kind;
}

/* One value far below 0 does not make weights a mask. */
Test(import_language, only_zeros_and_what_hides_are_a_mask) {
    const float least = -3.4028235e38f, infinite = (float)-INFINITY;
    cr_expect_neq(kind_of_addend((float[]){0, least, 0}), CLEAVE_TENSOR_PARAMETER);
    cr_expect_neq(kind_of_addend((float[]){infinite, 0, -1e9f}), CLEAVE_TENSOR_PARAMETER);
    cr_expect_eq(kind_of_addend((float[]){0.5f, -2e9f, 0}), CLEAVE_TENSOR_PARAMETER);
    cr_expect_eq(kind_of_addend((float[]){least, 0, -0.25f}), CLEAVE_TENSOR_PARAMETER);
    cr_expect_eq(kind_of_addend((float[]){0, 0, 0}), CLEAVE_TENSOR_PARAMETER);
}
