package daemon

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// ErrHelp says that the help was asked for and printed. [Main] exits with 0.
var ErrHelp = errors.New("help was printed")

const (
	envPrefix  = "COUNTERSIGN_"
	fileSuffix = "_FILE"
)

// Parse fills cfg, a pointer to a struct with kong tags, from the command
// line, then the environment (tag env), then the defaults. An empty variable
// is one that is not set. A [Secret] or [URL] named X can be read from the
// file named by X_FILE instead. With -h it prints every setting to stdout and
// returns [ErrHelp].
//
// Its errors name the setting, never the value of a secret.
func Parse(
	name, description string, cfg any, args []string, getenv func(string) string, stdout io.Writer,
) error {
	var helped bool
	source := &environment{getenv: getenv}
	parser, err := kong.New(cfg,
		kong.Name(name), kong.Description(description),
		kong.Writers(stdout, stdout), kong.Exit(func(int) { helped = true }),
		kong.ValueFormatter(helpText), kong.Resolvers(source), kong.PostBuild(source.take),
	)
	if err != nil {
		return fmt.Errorf("settings of %s: %w", name, err)
	}
	_, err = parser.Parse(args)
	switch {
	case helped:
		return ErrHelp
	case err != nil:
		return fmt.Errorf("%w (-h lists every setting)", err)
	}
	return source.checkRequired()
}

// environment reads settings through getenv. kong by itself reads the
// process's environment, and repeats values in its errors.
type environment struct {
	getenv   func(string) string
	required []*kong.Flag
	envs     map[*kong.Value]string
}

// take moves the names of variables from kong's model to here, where help and
// errors find them again.
func (e *environment) take(k *kong.Kong) error {
	e.envs = map[*kong.Value]string{}
	for _, flag := range k.Model.Flags {
		if len(flag.Tag.Envs) > 0 {
			e.envs[flag.Value] = flag.Tag.Envs[0]
			flag.Help = describe(flag)
		}
		if flag.Required {
			e.required = append(e.required, flag)
		}
		flag.Required, flag.Envs, flag.Tag.Envs = false, nil, nil
	}
	return nil
}

// describe is a setting's help with where else it can come from.
func describe(flag *kong.Flag) string {
	help := flag.Help + " [$" + flag.Tag.Envs[0]
	if isSecret(flag) {
		help += ", or a file named by $" + flag.Tag.Envs[0] + fileSuffix
	}
	if flag.Required {
		help += "; required"
	}
	return help + "]"
}

func helpText(value *kong.Value) string { return value.Help }

func isSecret(flag *kong.Flag) bool {
	switch flag.Target.Interface().(type) {
	case Secret, URL:
		return true
	}
	return false
}

// Validate has nothing to check: unknown variables are warned about, since
// services often share one environment.
func (e *environment) Validate(*kong.Application) error { return nil }

// Resolve gives kong the text of a flag that is not on the command line.
func (e *environment) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	env, named := e.envs[flag.Value]
	if !named {
		return nil, nil
	}
	text, source := e.getenv(env), env
	if path := e.getenv(env + fileSuffix); path != "" && isSecret(flag) {
		if text != "" {
			return nil, fmt.Errorf("%s and %s are both set; unset one of them", env, env+fileSuffix)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", env+fileSuffix, err)
		}
		text, source = strings.TrimRight(string(content), "\r\n"), env+fileSuffix
	}
	if text == "" {
		return nil, nil
	}
	return text, check(flag, text, source)
}

// check parses the text once more, on the side, for an error that names the
// variable.
func check(flag *kong.Flag, text, source string) error {
	scratch := reflect.New(flag.Target.Type()).Elem()
	scanner := kong.Scan().PushTyped(text, kong.FlagValueToken)
	if err := flag.Mapper.Decode(&kong.DecodeContext{Value: flag.Value, Scan: scanner}, scratch); err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	return nil
}

func (e *environment) checkRequired() error {
	for _, flag := range e.required {
		if flag.Target.IsZero() {
			return fmt.Errorf("--%s or %s must be set: %s (-h lists every setting)",
				flag.Name, e.envs[flag.Value], flag.OrigHelp)
		}
	}
	return nil
}

// Announce logs the version and the settings in force, secrets masked, and
// warns about COUNTERSIGN_* variables of this process that are no setting of
// cfg.
func Announce(log *slog.Logger, cfg any, getenv func(string) string) {
	settings := []any{slog.String("version", Version())}
	var known []string
	for _, flag := range flagsOf(cfg) {
		settings = append(settings, slog.String(flag.Name, fmt.Sprint(flag.Target.Interface())))
		for _, env := range flag.Envs {
			known = append(known, env)
			if isSecret(flag) {
				known = append(known, env+fileSuffix)
			}
		}
	}
	log.Info("starting", settings...)
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, envPrefix) && getenv(name) != "" && !slices.Contains(known, name) {
			log.Warn("this variable is no setting of this service", "variable", name)
		}
	}
}

// Variables lists the environment variables that set cfg, a pointer to a
// configuration struct, in the order of its fields; files' variants included.
func Variables(cfg any) []string {
	var names []string
	for _, flag := range flagsOf(cfg) {
		for _, env := range flag.Envs {
			names = append(names, env)
			if isSecret(flag) {
				names = append(names, env+fileSuffix)
			}
		}
	}
	return names
}

// flagsOf lists the settings of a configuration struct with their present
// values. The struct was parsed before, so its tags are right.
func flagsOf(cfg any) []*kong.Flag {
	parser, err := kong.New(cfg, kong.NoDefaultHelp())
	if err != nil {
		panic(fmt.Sprintf("settings of %T: %v", cfg, err))
	}
	return parser.Model.Flags
}
