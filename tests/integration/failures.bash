# What integration tests share: a folder of their own, which goes when they end, and their failures.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

finish() {
    exit $((failures > 0))
}
