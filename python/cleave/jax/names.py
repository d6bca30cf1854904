"""Names of arrays in a tree: their paths, with dots."""
import jax


def _word(key):
    return str(next(getattr(key, own) for own in ("key", "idx", "name") if hasattr(key, own)))


def named_leaves(tree, is_leaf=None):
    """[(name, leaf)], and the structure.  What linen puts around parameters ("params") and NNX behind them (their value) is
    no part of a name: "Dense_0.kernel", "blocks.0.attention.query.kernel"."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_leaf)

    def name(path):
        words = [_word(key) for key in path]
        words = words[:-1] if len(words) > 1 and words[-1] == "value" and hasattr(path[-1], "name") else words
        return ".".join(words[1:] if len(words) > 1 and words[0] == "params" else words)

    return [(name(path), leaf) for path, leaf in leaves], structure
