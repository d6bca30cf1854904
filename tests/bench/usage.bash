# What the scripts of benches share.  Sourced first: --help or -h prints the comment at the head of the script.
refuse() {
    echo "$0: $* (--help says more)" >&2
    exit 2
}

# number NAME VALUE: what is no number that is above 0 is refused.
number() {
    awk -v v="$2" 'BEGIN { exit !(v ~ /^[0-9]+(\.[0-9]+)?$/ && v > 0) }' || refuse "$1 $2: a number above 0 is wanted"
}

for word in "$@"; do
    case $word in -h | --help)
        sed -n '1d; /^#/!q; s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    esac
done
