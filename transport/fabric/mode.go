package fabric

// Mode says what a fabric checks, and whether its operations are asynchronous.
type Mode uint8

const (
	// ModeDefault: operations are executed by an engine, out of order and in
	// pieces. What a call can find out about its own arguments is checked.
	ModeDefault Mode = iota
	// ModeStrict: as ModeDefault, with the sanitizer on. See [Rule].
	ModeStrict
	// ModeFast: bytes move inline, when an operation starts. The accounting of
	// phases and the checks of arguments are those of ModeDefault.
	ModeFast
)

func (m Mode) String() string {
	switch m {
	case ModeDefault:
		return "default"
	case ModeStrict:
		return "strict"
	case ModeFast:
		return "fast"
	}
	return "unknown mode"
}
