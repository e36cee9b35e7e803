# What the scripts of this folder have in common; to be sourced.
#
#	NAME [-n RANKS] [-o FILE] [-- FLAGS of mpi_perf or gloo_perf.py]

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
me=$(basename "$0")
ranks=2
out=$me.jsonl
die() {
	echo "$me: $*" >&2
	exit 1
}
while getopts n:o: opt; do
	case $opt in
	n) ranks=$OPTARG ;;
	o) out=$OPTARG ;;
	*) die "usage: $me [-n RANKS] [-o FILE] [-- FLAGS]" ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- -coll all
revision=$(git -C "$here" rev-parse --short=12 HEAD 2>/dev/null || echo unknown)

# build COMPILER OUTPUT: mpi_perf with that MPI's compiler.
build() {
	"$1" -O2 -std=gnu99 -Wall -o "$2" -I "$here" "$here/mpi_perf.c" "$here/mpiloop/loop.c" || die "$1 failed"
}

work=$(mktemp -d "${TMPDIR:-/tmp}/weft-peer.XXXXXX")
trap 'rm -rf "$work"' EXIT
