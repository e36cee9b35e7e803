# What the scripts of this folder have in common; to be sourced.
#
#	NAME [-n RANKS] [-o FILE] [-- FLAGS of mpi_perf or gloo_perf.py]
#
# A script that has more options sets options, as getopts wants it, and defines
# option LETTER, which takes one from $OPTARG.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
me=$(basename "$0")
ranks=2
out=$me.jsonl
die() {
	echo "$me: $*" >&2
	exit 1
}
while getopts "hn:o:${options:-}" opt; do
	case $opt in
	h) # the comment that the script begins with
		sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
		exit
		;;
	n) ranks=$OPTARG ;;
	o) out=$OPTARG ;;
	\?) die "see $me -h" ;;
	*) option "$opt" ;;
	esac
done
shift $((OPTIND - 1))
[[ $ranks =~ ^[1-9][0-9]*$ ]] || die "-n $ranks: a number of at least 1 is wanted"
[ $# -gt 0 ] || set -- -coll all
revision=$(git -C "$here" rev-parse --short=12 HEAD 2>/dev/null || echo unknown)

# build COMPILER OUTPUT: mpi_perf with that MPI's compiler.
build() {
	"$1" -O2 -std=gnu99 -Wall -o "$2" -I "$here" "$here/mpi_perf.c" "$here/mpiloop/loop.c" || die "$1 failed"
}

# wheel PACKAGE VERSION INSTALL: sets prefix to the virtual environment that has
# that wheel of PyPI, in the user's cache. It is made only if INSTALL is 1.
wheel() {
	prefix=${XDG_CACHE_HOME:-$HOME/.cache}/weft/peers/$1-$2
	[ ! -e "$prefix/complete" ] || return 0
	[ "$3" = 1 ] || die "$1 $2 is missing: -i installs it from PyPI into $prefix"
	echo "$me: installing $1 $2 into $prefix" >&2
	rm -rf "$prefix"
	mkdir -p "$(dirname "$prefix")"
	python3 -m venv "$prefix" || die "python3 with venv is needed"
	"$prefix/bin/pip" install -q --disable-pip-version-check "$1==$2" </dev/null || die "$1 can't be installed"
	touch "$prefix/complete"
}

work=$(mktemp -d "${TMPDIR:-/tmp}/weft-peer.XXXXXX")
trap 'rm -rf "$work"' EXIT
