package service

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// fenced returns a document's code blocks in the given language.
func fenced(t *testing.T, name, language string) (blocks []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	require.NoError(t, err)
	rest := string(data)
	for {
		var found bool
		if _, rest, found = strings.Cut(rest, "```"+language+"\n"); !found {
			return blocks
		}
		var block string
		block, rest, found = strings.Cut(rest, "```")
		require.True(t, found)
		blocks = append(blocks, block)
	}
}

// curls returns the arguments of each curl command in a document.
func curls(t *testing.T, name string) (all [][]string) {
	t.Helper()
	for _, block := range fenced(t, name, "sh") {
		for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
			if words := shellWords(line); len(words) > 0 && words[0] == "curl" {
				all = append(all, words[1:])
			}
		}
	}
	return all
}

// shellWords splits a line into words like a shell, with support for single quotes.
func shellWords(line string) (words []string) {
	for _, m := range regexp.MustCompile(`(?:'[^']*'|[^\s'])+`).FindAllString(line, -1) {
		words = append(words, strings.ReplaceAll(m, "'", ""))
	}
	return words
}

// curl sends the request that a curl command would send, to the service at url.
func curl(t *testing.T, url string, args []string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost", http.NoBody)
	require.NoError(t, err)
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; arg {
		case "-s", "-sN":
		case "-H":
			i++
			header, value, ok := strings.Cut(args[i], ": ")
			require.True(t, ok)
			req.Header.Set(header, value)
		case "-u":
			i++
			user, password, _ := strings.Cut(args[i], ":")
			req.SetBasicAuth(user, password)
		case "-d":
			i++
			req.Method, req.Body = http.MethodPost, io.NopCloser(strings.NewReader(args[i]))
		default:
			path, ok := strings.CutPrefix(arg, "localhost:8080/")
			require.True(t, ok, "%q is neither a flag that this test knows, nor a URL of the service", arg)
			req.URL, err = req.URL.Parse(url + path)
			require.NoError(t, err)
			req.Host = req.URL.Host
		}
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") { // the stream does not end
		line := make([]byte, 6)
		_, err = io.ReadFull(resp.Body, line)
		require.NoError(t, err)
		return resp.StatusCode, string(line)
	}
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

// documented serves the programs that the documents mention. If tokens is empty, there is no token
// file, and the service is only for this machine.
func documented(t *testing.T, tokens string) string {
	t.Helper()
	store := memstore.New()
	o := Options{Store: store, Thread: "assistant"}
	if tokens != "" {
		path := filepath.Join(t.TempDir(), "tokens")
		require.NoError(t, os.WriteFile(path, []byte(tokens), 0o600))
		var err error
		o.Streamer.Authorize, err = Tokens(path)
		require.NoError(t, err)
	}
	asked := new(atomic.Int64)
	var programs *runner.Runner
	url, _ := served(t, o, func(r *runner.Runner) error {
		programs = r
		runner.Register(r, conversation.NewProgram(r.Store(), assistant(asked)))
		runner.Register(r, decorators.Agent("support", "", func(ctx context.Context, _ ticket) (string, error) {
			if ok, err := core.Await[bool](ctx, "refund?"); err != nil || !ok {
				return "", err
			}
			_, err := core.Receive[any](ctx, "called")
			return "done", err
		}))
		return nil
	})
	_, err := programs.Start(t.Context(), "support", "ticket-7", ticket{}, runner.StartOptions{})
	require.NoError(t, err)
	for event, err := range store.Watch(t.Context(), snapshot.WatchOptions{RunID: "ticket-7"}) {
		require.NoError(t, err)
		if event.Info.Status == snapshot.StatusPaused {
			break
		}
	}
	return url
}

// The service accepts every curl command in the documents, in order.
func TestCurlLinesOfTheDocumentsWork(t *testing.T) {
	tokens := regexp.MustCompile(`(?s)A file of tokens:\s+` + "```" + `\n(.*?)` + "```").FindStringSubmatch(document(t, "deploy.md"))
	require.NotNil(t, tokens)
	for name, tokens := range map[string]string{"service.md": "", "changes.md": "", "deploy.md": tokens[1]} {
		t.Run(name, func(t *testing.T) {
			url := documented(t, tokens)
			lines := curls(t, name)
			require.Len(t, lines, len(regexp.MustCompile(`(?m)^\s*curl `).FindAllString(document(t, name), -1)), "every curl command is in a shell block")
			require.NotEmpty(t, lines)
			for _, args := range lines {
				status, body := curl(t, url, args)
				assert.Less(t, status, 300, "curl %q: %s", args, body)
				if strings.Contains(strings.Join(args, " "), "threads/ann -H") { // wait for the end of the turn
					until(t, url, "ann-0001", "run_completed")
				}
			}
		})
	}
}

func document(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	require.NoError(t, err)
	return string(data)
}

// The document lists each request that package streamer's handler serves, except for the page and
// for /health, which a service serves as /healthz.
func TestDocumentHasTheRequestsOfTheHandler(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("..", "..", "streamer", "handler.go"))
	require.NoError(t, err)
	patterns := regexp.MustCompile(`mux\.Handle\("(?:GET|POST) (/[^"]*)"`).FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(patterns), 20)
	text := document(t, "service.md")
	for _, m := range patterns {
		path := strings.Replace(m[1], "{call...}", "{address}/input", 1)
		if slices.Contains([]string{"/{$}", "/{asset}", "/health"}, path) {
			continue
		}
		last := path[strings.LastIndex(path, "/"):] // a row may list several requests, as `POST /api/runs/{run}/resume`, `/retry`
		listed := regexp.MustCompile(regexp.QuoteMeta(path) + "[`?]|`" + regexp.QuoteMeta(last) + "`")
		assert.True(t, listed.MatchString(text), "service.md does not have %s", path)
	}
}

// The document has each flag of a service, and no request that a service does not have.
func TestDocumentHasTheSettingsAndRequests(t *testing.T) {
	var help bytes.Buffer
	_, err := parse([]string{"agents", "-h"}, Options{}, func(string) (string, bool) { return "", false }, &help)
	require.Error(t, err)
	text := document(t, "service.md")
	flags := regexp.MustCompile(`(?m)^  (-[a-z-]+)`).FindAllStringSubmatch(help.String(), -1)
	require.Greater(t, len(flags), 10)
	for _, flag := range flags {
		assert.Contains(t, text, "`"+flag[1]+"`")
	}
	url := documented(t, "")
	for _, m := range regexp.MustCompile("`(GET|POST) (/[^` ]*)`").FindAllStringSubmatch(text, -1) {
		path := strings.NewReplacer("{run}", "ticket-7", "{thread}", "nobody").Replace(strings.TrimSuffix(m[2], "?run=ID"))
		if path == "/hooks/stripe" || strings.HasPrefix(path, "/events") { // the stream does not end
			continue
		}
		status, body := do(t, m[1], strings.TrimSuffix(url, "/")+path, "")
		assert.NotContains(t, []int{405}, status, m[0])
		assert.NotContains(t, body, "there is nothing at this path", m[0])
	}
}

// The container has a static binary, and does not run as root.
func TestContainerHasAStaticBinaryAndNoRoot(t *testing.T) {
	blocks := fenced(t, "deploy.md", "dockerfile")
	require.Len(t, blocks, 1)
	build := regexp.MustCompile(`(?m)^RUN CGO_ENABLED=0 go (build .*) -o /agents ./cmd/agents$`).FindStringSubmatch(blocks[0])
	require.NotNil(t, build, blocks[0])
	binary := filepath.Join(t.TempDir(), "agents")
	cmd := exec.CommandContext(t.Context(), "go", append(strings.Fields(build[1]), "-o", binary, "../../examples/service")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	file, err := elf.Open(binary)
	require.NoError(t, err)
	defer file.Close()
	libraries, err := file.ImportedLibraries()
	require.NoError(t, err)
	assert.Empty(t, libraries)
	assert.False(t, slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }), "the binary needs no loader")
	assert.Regexp(t, `(?m)^USER [1-9][0-9]*:[1-9][0-9]*$`, blocks[0])
	for _, m := range regexp.MustCompile(`REPRISE_[A-Z_]+`).FindAllString(blocks[0], -1) {
		assert.True(t, isSetting(m), m)
	}
}

// isSetting reports whether an environment variable sets a flag.
func isSetting(name string) bool {
	asked := false
	_, _ = parse([]string{"agents"}, Options{}, func(n string) (string, bool) {
		asked = asked || n == name
		return "", false
	}, io.Discard)
	return asked
}

// stopsWithin is how much longer than its grace a service may take to stop.
const stopsWithin = 10 * time.Second

func TestSystemdAcceptsTheUnit(t *testing.T) {
	blocks := fenced(t, "deploy.md", "ini")
	require.Len(t, blocks, 2)
	unit := blocks[0]
	values := unitValues(unit)
	args := strings.Fields(values["ExecStart"])
	o, err := parse(args, Options{}, func(string) (string, bool) { return "", false }, io.Discard)
	require.NoError(t, err, "the flags are those of a service")
	seconds, err := strconv.Atoi(values["TimeoutStopSec"])
	require.NoError(t, err)
	assert.GreaterOrEqual(t, time.Duration(seconds)*time.Second, o.Runner.Grace+stopsWithin)
	assert.Equal(t, "/var/lib/"+values["StateDirectory"], o.Dir)
	assert.Equal(t, "yes", values["DynamicUser"])

	collect := unitValues(blocks[1])
	assert.Equal(t, "/usr/local/bin/reprise --dir "+o.Dir+" gc", collect["ExecStart"])
	assert.Equal(t, values["StateDirectory"], collect["StateDirectory"])
	assert.Equal(t, "yes", collect["DynamicUser"])
	assert.Equal(t, "agents", collect["User"], "the name of the service's unit, and so of its user")

	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return // without systemd, nothing more can be checked
	}
	path := filepath.Join(t.TempDir(), "agents.service")
	here := strings.Replace(unit, args[0], "/bin/true", 1) // an executable that exists
	require.NoError(t, os.WriteFile(path, []byte(here), 0o600))
	out, err := exec.CommandContext(t.Context(), verify, "verify", "--man=no", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.NotContains(t, string(out), "agents.service:", "systemd-analyze warns about the unit")
}

// unitValues returns the settings of a systemd unit.
func unitValues(unit string) map[string]string {
	values := make(map[string]string)
	for line := range strings.Lines(unit) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			values[key] = value
		}
	}
	return values
}

type (
	probe struct {
		HTTPGet struct {
			Path string
			Port string
		} `yaml:"httpGet"`
		PeriodSeconds    int `yaml:"periodSeconds"`
		FailureThreshold int `yaml:"failureThreshold"`
	}
	named struct {
		Name                  string
		Value                 string
		ContainerPort         int               `yaml:"containerPort"`
		MountPath             string            `yaml:"mountPath"`
		ReadOnly              bool              `yaml:"readOnly"`
		PersistentVolumeClaim map[string]string `yaml:"persistentVolumeClaim"`
		Secret                map[string]string
		SecretRef             struct{ Name string } `yaml:"secretRef"`
	}
	container struct {
		Name, Image     string
		Command         []string
		Env             []named
		EnvFrom         []named `yaml:"envFrom"`
		Ports           []named
		StartupProbe    probe           `yaml:"startupProbe"`
		ReadinessProbe  probe           `yaml:"readinessProbe"`
		LivenessProbe   probe           `yaml:"livenessProbe"`
		SecurityContext map[string]bool `yaml:"securityContext"`
		VolumeMounts    []named         `yaml:"volumeMounts"`
	}
	// deployment holds the fields of an apps/v1 Deployment that the document uses.
	deployment struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct{ Name string }
		Spec       struct {
			Replicas int
			Selector struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			}
			Strategy struct {
				Type          string
				RollingUpdate struct {
					MaxSurge       int `yaml:"maxSurge"`
					MaxUnavailable int `yaml:"maxUnavailable"`
				} `yaml:"rollingUpdate"`
			}
			Template struct {
				Metadata struct{ Labels map[string]string }
				Spec     struct {
					TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
					SecurityContext               struct {
						RunAsNonRoot bool `yaml:"runAsNonRoot"`
						RunAsUser    int  `yaml:"runAsUser"`
						FSGroup      int  `yaml:"fsGroup"`
					} `yaml:"securityContext"`
					InitContainers []container `yaml:"initContainers"`
					Containers     []container
					Volumes        []named
				}
			}
		}
	}
)

func TestManifestIsADeploymentOfTheContainer(t *testing.T) {
	blocks := fenced(t, "deploy.md", "yaml")
	require.Len(t, blocks, 3)
	d := decodeDeployment(t, blocks[0])
	assert.Equal(t, "apps/v1 Deployment", d.APIVersion+" "+d.Kind)
	assert.Equal(t, d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels)
	assert.Equal(t, "RollingUpdate", d.Spec.Strategy.Type)
	assert.Equal(t, 1, d.Spec.Replicas)
	assert.Zero(t, d.Spec.Strategy.RollingUpdate.MaxSurge, "two pods cannot share the volume")
	pod := d.Spec.Template.Spec
	assert.True(t, pod.SecurityContext.RunAsNonRoot)
	require.Len(t, pod.Containers, 1)
	c := pod.Containers[0]
	set := make(map[string]string)
	for _, env := range c.Env {
		assert.True(t, isSetting(env.Name), env.Name)
		set[env.Name] = env.Value
	}
	grace, err := time.ParseDuration(set["REPRISE_GRACE"])
	require.NoError(t, err)
	assert.GreaterOrEqual(t, time.Duration(pod.TerminationGracePeriodSeconds)*time.Second, grace+stopsWithin)
	assert.Contains(t, fenced(t, "deploy.md", "dockerfile")[0], fmt.Sprint("EXPOSE ", c.Ports[0].ContainerPort))
	assert.Contains(t, fenced(t, "deploy.md", "dockerfile")[0], fmt.Sprint("USER ", pod.SecurityContext.RunAsUser, ":"))
	url := documented(t, "")
	for _, p := range []probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		assert.Equal(t, c.Ports[0].Name, p.HTTPGet.Port)
		status, _ := do(t, http.MethodGet, strings.TrimSuffix(url, "/")+p.HTTPGet.Path, "")
		assert.Equal(t, 200, status, p.HTTPGet.Path)
	}
	assert.NotEqual(t, c.ReadinessProbe.HTTPGet.Path, c.LivenessProbe.HTTPGet.Path, "a service that is stopping must count as alive")
	volumes := make(map[string]bool)
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	mounts := make(map[string]string)
	for _, m := range c.VolumeMounts {
		assert.True(t, volumes[m.Name], m.Name)
		mounts[m.MountPath] = m.Name
	}
	assert.Equal(t, "data", mounts["/data"])
	assert.Equal(t, "tokens", mounts[filepath.Dir(set["REPRISE_TOKENS"])])
}

// decodeDeployment decodes a Deployment, or a fragment that changes one.
func decodeDeployment(t *testing.T, text string) deployment {
	t.Helper()
	var d deployment
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&d))
	return d
}

// The document's lines for several replicas fit the Deployment that they change.
func TestSeveralReplicasMigrateBeforeTheyStart(t *testing.T) {
	blocks := fenced(t, "deploy.md", "yaml")
	require.Len(t, blocks, 3)
	one, several := decodeDeployment(t, blocks[0]), decodeDeployment(t, blocks[1])
	assert.Greater(t, several.Spec.Replicas, 1)
	assert.Zero(t, several.Spec.Strategy.RollingUpdate.MaxUnavailable, "the old pods run while the schema is migrated")
	assert.Positive(t, several.Spec.Strategy.RollingUpdate.MaxSurge)
	pod := several.Spec.Template.Spec
	require.Len(t, pod.Containers, 1)
	require.Len(t, pod.InitContainers, 1)
	worker, migrate := pod.Containers[0], pod.InitContainers[0]
	was := one.Spec.Template.Spec.Containers[0]
	assert.Equal(t, was.Name, worker.Name)
	assert.Equal(t, was.Image, migrate.Image)
	assert.Equal(t, was.SecurityContext, migrate.SecurityContext)
	assert.Equal(t, []string{"/reprise-postgres", "-store", "$(REPRISE_STORE)", "migrate"}, migrate.Command)
	assert.Equal(t, worker.EnvFrom, migrate.EnvFrom)
	require.Len(t, worker.EnvFrom, 1)
	text := document(t, "deploy.md")
	assert.Contains(t, text, "kubectl create secret generic "+worker.EnvFrom[0].SecretRef.Name+" ")
	assert.Contains(t, text, fmt.Sprintf("kubectl create service clusterip %s --tcp=80:%d", one.Spec.Template.Metadata.Labels["app"], was.Ports[0].ContainerPort))
}

// The job that removes artifacts uses the image, user and volume of the Deployment.
func TestArtifactsAreCollectedInTheVolumeOfTheDeployment(t *testing.T) {
	blocks := fenced(t, "deploy.md", "yaml")
	require.Len(t, blocks, 3)
	var job struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct{ Name string }
		Spec       struct {
			Schedule          string
			ConcurrencyPolicy string `yaml:"concurrencyPolicy"`
			JobTemplate       struct {
				Spec struct {
					Template struct {
						Spec struct {
							RestartPolicy string `yaml:"restartPolicy"`
							Affinity      struct {
								PodAffinity struct {
									Required []struct {
										TopologyKey   string `yaml:"topologyKey"`
										LabelSelector struct {
											MatchLabels map[string]string `yaml:"matchLabels"`
										} `yaml:"labelSelector"`
									} `yaml:"requiredDuringSchedulingIgnoredDuringExecution"`
								} `yaml:"podAffinity"`
							}
							SecurityContext map[string]any `yaml:"securityContext"`
							Containers      []container
							Volumes         []named
						}
					}
				}
			} `yaml:"jobTemplate"`
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(blocks[2]))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&job))
	assert.Equal(t, "batch/v1 CronJob", job.APIVersion+" "+job.Kind)
	service, pod := decodeDeployment(t, blocks[0]).Spec.Template, job.Spec.JobTemplate.Spec.Template.Spec
	near := pod.Affinity.PodAffinity.Required
	require.Len(t, near, 1)
	assert.Equal(t, service.Metadata.Labels, near[0].LabelSelector.MatchLabels)
	assert.Equal(t, service.Spec.SecurityContext.RunAsUser, pod.SecurityContext["runAsUser"])
	require.Len(t, pod.Containers, 1)
	assert.Equal(t, service.Spec.Containers[0].Image, pod.Containers[0].Image)
	assert.Equal(t, service.Spec.Containers[0].VolumeMounts[0], pod.Containers[0].VolumeMounts[0])
	assert.Equal(t, service.Spec.Volumes[0], pod.Volumes[0])
	assert.Equal(t, []string{"/reprise", "gc"}, pod.Containers[0].Command)
	assert.Contains(t, fenced(t, "deploy.md", "dockerfile")[0], "REPRISE_DIR="+pod.Containers[0].VolumeMounts[0].MountPath+" ")
}
