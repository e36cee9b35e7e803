package comm

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
)

// DefaultTimeout is the deadline of calls whose context has none.
const DefaultTimeout = 10 * time.Minute

// settings are what options and the environment decide.
type settings struct {
	timeout   time.Duration
	transport string
	algorithm string
	logger    *slog.Logger
}

// An Option configures Init or Local. Options win over WEFT_* variables.
type Option func(*settings) error

// WithTimeout sets the deadline of calls whose context has none (WEFT_TIMEOUT,
// default [DefaultTimeout]). It counts from the moment at which a call begins to
// wait; the ranks should agree on it. Zero or less is an error.
func WithTimeout(d time.Duration) Option {
	return func(s *settings) error {
		if d <= 0 {
			return fmt.Errorf("%w: timeout %v", ErrArgument, d)
		}
		s.timeout = d
		return nil
	}
}

// WithLogger sets where the library logs (WEFT_LOG: debug, info, warn or error,
// for a text log on standard error). The default is nowhere.
func WithLogger(l *slog.Logger) Option {
	return func(s *settings) error {
		if l == nil {
			return fmt.Errorf("%w: nil logger", ErrArgument)
		}
		s.logger = l
		return nil
	}
}

// WithTransport chooses the transport (WEFT_TRANSPORT): "auto" or "pointer".
func WithTransport(name string) Option {
	return func(s *settings) error {
		switch name {
		case "auto", "pointer":
			s.transport = name
			return nil
		}
		return fmt.Errorf("%w: transport %q; known are auto, pointer", ErrArgument, name)
	}
}

// WithAlgorithm says which algorithms collectives may use (WEFT_ALGO): a list of
// names for all collectives, then lists for some of them, as in
// "ring,tree;allreduce:^ring;broadcast:tree". A list that begins with ^ excludes
// its names. Of the algorithms allowed the one that should be fastest is used;
// "weft plan -list" lists all. All ranks must give the same.
func WithAlgorithm(spec string) Option {
	return func(s *settings) error {
		s.algorithm = spec
		return nil
	}
}

// configure applies the environment, then the options.
func configure(opts []Option, getenv func(string) string) (settings, error) {
	s := settings{timeout: DefaultTimeout, transport: "auto", logger: slog.New(slog.DiscardHandler)}
	var env []Option
	from := func(name string, o Option) {
		env = append(env, func(s *settings) error {
			if err := o(s); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	if v := getenv("WEFT_TIMEOUT"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			return s, fmt.Errorf("weft: WEFT_TIMEOUT: %w: %q is not a duration such as 30s", ErrArgument, v)
		}
		from("WEFT_TIMEOUT", WithTimeout(d))
	}
	if v := getenv("WEFT_TRANSPORT"); v != "" {
		from("WEFT_TRANSPORT", WithTransport(strings.ToLower(v)))
	}
	if v := getenv("WEFT_ALGO"); v != "" {
		from("WEFT_ALGO", WithAlgorithm(v))
	}
	if v := getenv("WEFT_LOG"); v != "" {
		var level slog.Level
		if err := level.UnmarshalText([]byte(v)); err != nil {
			return s, fmt.Errorf("weft: WEFT_LOG: %w: %q; known are debug, info, warn, error", ErrArgument, v)
		}
		from("WEFT_LOG", WithLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))))
	}
	for _, o := range append(env, opts...) {
		if o == nil {
			return s, fmt.Errorf("weft: %w: nil option", ErrArgument)
		}
		if err := o(&s); err != nil {
			return s, fmt.Errorf("weft: %w", err)
		}
	}
	return s, nil
}
