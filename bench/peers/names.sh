# The peers that have programs of their own, by name; to be sourced.

# All that are measured if nobody says which.
peer_names="openmpi openmpi-tuned openmpi5 mpich mpich5 gloo"

# run_peer NAME ARGUMENTS: a script of this folder. The peers of openmpi6 are for
# an installation of Open MPI 6, which OPENMPI6 names: it has components that no
# release has.
run_peer() {
	local name=$1 dir
	shift
	dir=$(dirname "${BASH_SOURCE[0]}")
	case $name in
	openmpi | mpich | gloo) "$dir/$name" "$@" ;;
	openmpi-tuned) TUNED=1 "$dir/openmpi" "$@" ;;
	openmpi5 | mpich5) "$dir/$name" -i "$@" ;;
	openmpi5-tuned) TUNED=1 "$dir/openmpi5" -i "$@" ;;
	openmpi6) "$dir/openmpi5" -p "${OPENMPI6:?is where Open MPI 6 is}" "$@" ;;
	openmpi6-*) "$dir/openmpi5" -p "${OPENMPI6:?is where Open MPI 6 is}" -m "${name#*-}" "$@" ;;
	*)
		echo "no peer $name: there are $peer_names openmpi5-tuned openmpi6 openmpi6-xhc openmpi6-acoll" >&2
		return 2
		;;
	esac
}
