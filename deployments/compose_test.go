package deployments_test

import (
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/countersign/countersign/pkg/daemon"
	api "github.com/countersign/countersign/services/api/server"
	continuer "github.com/countersign/countersign/services/continuer/server"
	worker "github.com/countersign/countersign/services/worker/server"
)

// deployed is a service with the configuration that its program reads.
type deployed struct {
	config any
	common *daemon.Common
	listen *string
}

func deployedServices() map[string]deployed {
	var a api.Config
	var c continuer.Config
	var w worker.Config
	return map[string]deployed{
		"api":       {&a, &a.Common, &a.Listen},
		"continuer": {&c, &c.Common, &c.Listen},
		"worker":    {&w, &w.Common, &w.Listen},
	}
}

// Every setting in the compose file is one that its service knows, and the
// service accepts them.
func TestComposeSetsWhatTheServicesRead(t *testing.T) {
	t.Parallel()
	project := composeProject(t)
	for name, service := range deployedServices() {
		environment := environmentOf(t, project, name)
		known := daemon.Variables(service.config)
		for variable := range environment {
			if strings.HasPrefix(variable, "COUNTERSIGN_") && !slices.Contains(known, variable) {
				t.Errorf("%s: %s is no setting of it; it knows %v", name, variable, known)
			}
		}
		getenv := func(variable string) string { return environment[variable] }
		if err := daemon.Parse(name, "", service.config, nil, getenv, io.Discard); err != nil {
			t.Errorf("%s does not accept its settings: %v", name, err)
		}
	}
}

// The operator's command is a program, so its settings are looked up in its
// source.
func TestComposeSetsWhatMigrateReads(t *testing.T) {
	t.Parallel()
	source := readFile(t, "../cmd/countersign/migrate.go") + readFile(t, "../cmd/countersign/database.go")
	for variable := range environmentOf(t, composeProject(t), "migrate") {
		if !strings.Contains(source, `env:"`+variable+`"`) {
			t.Errorf("countersign migrate does not read %s", variable)
		}
	}
}

// The probe of each service asks where the service listens, and the users it
// connects as exist.
func TestComposeFitsItself(t *testing.T) {
	t.Parallel()
	project := composeProject(t)
	roles, users := readFile(t, "roles.sql"), readFile(t, "nats.conf")
	for name, service := range deployedServices() {
		environment := environmentOf(t, project, name)
		getenv := func(variable string) string { return environment[variable] }
		must(t, daemon.Parse(name, "", service.config, nil, getenv, io.Discard))

		probe := parseURL(t, project.Services[name].HealthCheck.Test[3])
		if _, port, _ := net.SplitHostPort(*service.listen); probe.Port() != port || probe.Path != "/readyz" {
			t.Errorf("%s listens on %s and is probed at %s", name, *service.listen, probe)
		}
		database := parseURL(t, service.common.DatabaseURL.Reveal())
		if !strings.Contains(roles, "to "+database.User.Username()+";") {
			t.Errorf("%s connects to Postgres as %s, to whom roles.sql grants nothing", name, database.User.Username())
		}
		bus := parseURL(t, service.common.NATSURL.Reveal())
		if !regexp.MustCompile(`user: ` + bus.User.Username() + `\b`).MatchString(users) {
			t.Errorf("%s connects to NATS as %s, whom nats.conf does not know", name, bus.User.Username())
		}
		for what, address := range map[string]*url.URL{
			"postgres": database, "nats": bus, "redis": parseURL(t, service.common.RedisURL.Reveal()),
		} {
			if address.Hostname() != what {
				t.Errorf("%s looks for %s at %s", name, what, address.Hostname())
			}
		}
	}
}

// Passwords that two services must agree on come from one variable each.
func TestComposePasswordsAgree(t *testing.T) {
	t.Parallel()
	project := composeProject(t)
	roles, nats := environmentOf(t, project, "roles"), environmentOf(t, project, "nats")
	for name := range deployedServices() {
		environment := environmentOf(t, project, name)
		for variable, want := range map[string]string{
			"COUNTERSIGN_DATABASE_URL": roles[strings.ToUpper(name)+"_PASSWORD"],
			"COUNTERSIGN_NATS_URL":     nats[strings.ToUpper(name)+"_PASSWORD"],
		} {
			if got, _ := parseURL(t, environment[variable]).User.Password(); got != want || got == "" {
				t.Errorf("%s: the password in %s is not the one that was set", name, variable)
			}
		}
	}
}

// What runs on has a health check; who needs another waits until it is well,
// or done.
func TestComposeStartsInOrder(t *testing.T) {
	t.Parallel()
	project := composeProject(t)
	once := []string{"migrate", "roles"}
	for name, service := range project.Services {
		if checked := service.HealthCheck != nil; checked == slices.Contains(once, name) {
			t.Errorf("%s: health check %v, runs once %v", name, checked, !checked)
		}
		for needed, dependency := range service.DependsOn {
			want := types.ServiceConditionHealthy
			if slices.Contains(once, needed) {
				want = types.ServiceConditionCompletedSuccessfully
			}
			if dependency.Condition != want {
				t.Errorf("%s waits for %s to be %s, want %s", name, needed, dependency.Condition, want)
			}
		}
	}
	have := slices.Sorted(maps.Keys(project.Services))
	if want := []string{"api", "continuer", "migrate", "nats", "postgres", "redis", "roles", "worker"}; !slices.Equal(have, want) {
		t.Errorf("services = %v, want %v", have, want)
	}
}

// Every image of ours is built from a program that exists.
func TestComposeBuildsProgramsThatExist(t *testing.T) {
	t.Parallel()
	for name, service := range composeProject(t).Services {
		if service.Build == nil {
			continue
		}
		program := service.Build.Args["SERVICE"]
		if program == nil {
			t.Errorf("%s says not which program it is built from", name)
			continue
		}
		if _, err := os.Stat("../" + *program + "/main.go"); err != nil {
			t.Errorf("%s is built from %s: %v", name, *program, err)
		}
		if _, err := os.Stat("../" + service.Build.Dockerfile); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func composeProject(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../docker-compose.yml"}, cli.WithDiscardEnvFile, cli.WithResolvedPaths(false))
	must(t, err)
	project, err := options.LoadProject(t.Context())
	must(t, err)
	return project
}

func environmentOf(t *testing.T, project *types.Project, name string) map[string]string {
	t.Helper()
	service, err := project.GetService(name)
	must(t, err)
	environment := map[string]string{}
	for variable, value := range service.Environment {
		if value == nil {
			t.Fatalf("%s: %s has no value", name, variable)
		}
		environment[variable] = *value
	}
	return environment
}

func parseURL(t *testing.T, text string) *url.URL {
	t.Helper()
	parsed, err := url.Parse(text)
	must(t, err)
	return parsed
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	return string(text)
}
