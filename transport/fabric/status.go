package fabric

// OpStatus is what is known of one failure in a phase.
type OpStatus uint8

const (
	// OpSuccess: nothing failed.
	OpSuccess OpStatus = iota
	// OpFailed: something failed; no more is known, as on the hardware.
	OpFailed
)

func (s OpStatus) String() string {
	if s == OpSuccess {
		return "success"
	}
	return "failed"
}

// The code of a report: the number of failures in the high half, as far as it
// goes, and a mark that there are any.
const (
	codeFailed = 1
	codeMost   = 15
)

func encode(failures int) uint8 { return uint8(min(failures, codeMost))<<4 | codeFailed }

// Decode returns the failures that a report's code tells of, 15 at most.
func Decode(code uint8) []OpStatus {
	if code&codeFailed == 0 {
		return nil
	}
	all := make([]OpStatus, code>>4)
	for i := range all {
		all[i] = OpFailed
	}
	return all
}
