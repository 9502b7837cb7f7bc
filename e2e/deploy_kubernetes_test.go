package e2e

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	label "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// manifests are what deploy/kubernetes describes.
type manifests struct {
	config     *core.ConfigMap
	deployment *apps.Deployment
	services   []*core.Service
	hpa        *autoscaling.HorizontalPodAutoscaler
	pdb        *policy.PodDisruptionBudget
	network    *networking.NetworkPolicy
	monitor    *monitoring.ServiceMonitor
	ingress    *networking.Ingress
}

// kustomization is as much of a kustomization.yaml as there is in ours.
type kustomization struct {
	APIVersion, Kind, Namespace string
	Images                      []struct{ Name, NewName, NewTag string }
	Resources                   []string
}

// readManifests decodes all that kustomization.yaml lists, and the example of an
// Ingress, which it does not. Keys that the API does not have are errors.
func readManifests(t *testing.T) (m manifests) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apps.AddToScheme, autoscaling.AddToScheme, core.AddToScheme, networking.AddToScheme, policy.AddToScheme, monitoring.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()

	var k kustomization
	readYAML(t, deployed("kubernetes", "kustomization.yaml"), &k)
	files := append(slices.Clone(k.Resources), "ingress-example.yaml")
	for _, file := range files {
		for doc := range strings.SplitSeq(readFile(t, deployed("kubernetes", file)), "\n---\n") {
			object, _, err := decoder.Decode([]byte(doc), nil, nil)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			switch o := object.(type) {
			case *core.ConfigMap:
				m.config = o
			case *apps.Deployment:
				m.deployment = o
			case *core.Service:
				m.services = append(m.services, o)
			case *autoscaling.HorizontalPodAutoscaler:
				m.hpa = o
			case *policy.PodDisruptionBudget:
				m.pdb = o
			case *networking.NetworkPolicy:
				m.network = o
			case *monitoring.ServiceMonitor:
				m.monitor = o
			case *networking.Ingress:
				m.ingress = o
			default:
				t.Errorf("%s: nobody looks at %T", file, o)
			}
		}
	}
	// Nothing lies there that is not used.
	entries, err := os.ReadDir(deployed("kubernetes"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "kustomization.yaml" && !slices.Contains(files, e.Name()) {
			t.Fatalf("kustomization.yaml does not list %s", e.Name())
		}
	}
	if k.Images[0].Name != m.deployment.Spec.Template.Spec.Containers[0].Image {
		t.Errorf("kustomization.yaml sets the image %q, the Deployment has another one", k.Images[0].Name)
	}
	return m
}

func TestKubernetesPod(t *testing.T) {
	t.Parallel()
	m := readManifests(t)
	pod := m.deployment.Spec.Template.Spec
	c := pod.Containers[0]
	isTrue := func(p *bool) bool { return p != nil && *p }
	isFalse := func(p *bool) bool { return p != nil && !*p }

	config := filepath.Join(t.TempDir(), "config.yaml")
	write(t, config, m.config.Data["config.yaml"])
	env := []string{"DOOMPROXY_CONFIG=" + config}
	secrets := map[string]string{}
	durations := map[string]time.Duration{}
	for _, e := range c.Env {
		if e.ValueFrom != nil {
			secrets[e.Name] = e.ValueFrom.SecretKeyRef.Name
			continue
		}
		env = append(env, e.Name+"="+e.Value)
		if d, err := time.ParseDuration(e.Value); err == nil {
			durations[e.Name] = d
		}
	}
	if want := map[string]string{"DOOMPROXY_LEDGER_REDIS_URL": "doomproxy-ledger", "DOOMPROXY_ADMIN_TOKEN": "doomproxy-admin"}; !maps.Equal(secrets, want) {
		t.Errorf("from Secrets come %v, want %v", secrets, want)
	}
	delay, grace := durations["DOOMPROXY_SHUTDOWN_DELAY"], durations["DOOMPROXY_SHUTDOWN_GRACE"]
	if termination := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; delay < time.Second || grace < 10*time.Minute || termination < delay+grace+5*time.Second {
		t.Errorf("a pod is killed after %v, want more than its delay of %v and its grace of %v", termination, delay, grace)
	}
	for what, ok := range map[string]bool{
		"one container":             len(pod.Containers) == 1 && len(pod.InitContainers) == 0,
		"service links off":         isFalse(pod.EnableServiceLinks),
		"no token of the API":       isFalse(pod.AutomountServiceAccountToken),
		"a user that is not root":   isTrue(pod.SecurityContext.RunAsNonRoot) && *pod.SecurityContext.RunAsUser == imageUser && *pod.SecurityContext.FSGroup == imageUser,
		"the runtime's seccomp":     pod.SecurityContext.SeccompProfile.Type == core.SeccompProfileTypeRuntimeDefault,
		"no escalation":             isFalse(c.SecurityContext.AllowPrivilegeEscalation),
		"a read-only root":          isTrue(c.SecurityContext.ReadOnlyRootFilesystem),
		"no capabilities":           slices.Equal(c.SecurityContext.Capabilities.Drop, []core.Capability{"ALL"}) && c.SecurityContext.Capabilities.Add == nil,
		"liveness by /healthz":      c.LivenessProbe.HTTPGet.Path == "/healthz" && c.LivenessProbe.HTTPGet.Port.StrVal == "admin",
		"readiness by /readyz":      c.ReadinessProbe.HTTPGet.Path == "/readyz" && c.ReadinessProbe.HTTPGet.Port.StrVal == "admin",
		"the delay outlasts it":     time.Duration(c.ReadinessProbe.PeriodSeconds*c.ReadinessProbe.FailureThreshold)*time.Second < delay,
		"requests and limits":       len(c.Resources.Requests) == 2 && len(c.Resources.Limits) == 2,
		"a state folder":            slices.ContainsFunc(c.VolumeMounts, func(v core.VolumeMount) bool { return v.MountPath == "/var/lib/doomproxy" && !v.ReadOnly }),
		"spread over nodes":         len(pod.TopologySpreadConstraints) == 1,
		"the configuration's place": slices.ContainsFunc(c.VolumeMounts, func(v core.VolumeMount) bool { return v.MountPath == "/etc/doomproxy" && v.Name == "config" }),
		"the configuration itself":  slices.ContainsFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == "config" && v.ConfigMap.Name == m.config.Name }),
		"no replica away":           m.deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() == 0,
		"a number from the HPA":     m.deployment.Spec.Replicas == nil,
	} {
		if !ok {
			t.Errorf("the Deployment has not: %s", what)
		}
	}
	wantEnvironment(t, append(env, "DOOMPROXY_LEDGER_REDIS_URL=redis://127.0.0.1:"+freePort(t), "DOOMPROXY_ADMIN_TOKEN=token"))
}

// wantEnvironment starts the proxy with settings as they are deployed, but for
// where it listens, and stops it again.
func wantEnvironment(t *testing.T, env []string) {
	t.Helper()
	log := new(lockedBuffer)
	find, stop := startIn(t, t.TempDir(), log, env, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	admin := find(`admin +(\S+)`)
	fetch(t, "GET", admin+"/readyz", nil)
	stop()
	for line := range bytes.Lines(log.take()) {
		if bytes.Contains(line, []byte("unknown environment variable")) || bytes.Contains(line, []byte("out of range")) {
			t.Errorf("%s", line)
		}
	}
}

// The other manifests are about that Deployment.
func TestKubernetesAround(t *testing.T) {
	t.Parallel()
	m := readManifests(t)
	pod := m.deployment.Spec.Template
	selects := func(what string, selector map[string]string, of label.Set) {
		t.Helper()
		if len(selector) == 0 || !label.SelectorFromSet(selector).Matches(of) {
			t.Errorf("%s selects %v, not %v", what, selector, of)
		}
	}
	byLabels := func(what string, selector *meta.LabelSelector, of label.Set) {
		t.Helper()
		selects(what, selector.MatchLabels, of)
	}
	byLabels("the Deployment", m.deployment.Spec.Selector, pod.Labels)
	byLabels("the PodDisruptionBudget", m.pdb.Spec.Selector, pod.Labels)
	byLabels("the NetworkPolicy", &m.network.Spec.PodSelector, pod.Labels)
	byLabels("the spread", pod.Spec.TopologySpreadConstraints[0].LabelSelector, pod.Labels)

	ports := map[string]int32{}
	for _, p := range pod.Spec.Containers[0].Ports {
		ports[p.Name] = p.ContainerPort
	}
	if ports["http"] != 3666 || ports["admin"] != 3667 {
		t.Errorf("the ports are %v, want those of the image", ports)
	}
	var admin *core.Service
	for _, s := range m.services {
		selects("the Service "+s.Name, s.Spec.Selector, pod.Labels)
		if len(s.Spec.Ports) != 1 || ports[s.Spec.Ports[0].TargetPort.StrVal] != s.Spec.Ports[0].Port {
			t.Errorf("the Service %s has the ports %v", s.Name, s.Spec.Ports)
		}
		if s.Spec.Ports[0].Name == "admin" {
			admin = s
		}
	}
	byLabels("the ServiceMonitor", &m.monitor.Spec.Selector, admin.Labels)
	if e := m.monitor.Spec.Endpoints; len(e) != 1 || e[0].Port != "admin" || e[0].Path != "/metrics" {
		t.Errorf("the ServiceMonitor asks %v", e)
	}
	// The alerts look for this job.
	if job := admin.Labels[m.monitor.Spec.JobLabel]; job != "doomproxy" {
		t.Errorf("the job is %q, want doomproxy", job)
	}

	if ref := m.hpa.Spec.ScaleTargetRef; ref.Kind != "Deployment" || ref.Name != m.deployment.Name || *m.hpa.Spec.MinReplicas < 2 || m.hpa.Spec.MaxReplicas <= *m.hpa.Spec.MinReplicas {
		t.Errorf("the HorizontalPodAutoscaler scales %v from %d to %d", ref, *m.hpa.Spec.MinReplicas, m.hpa.Spec.MaxReplicas)
	}
	if m.pdb.Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("the PodDisruptionBudget has %v unavailable, want 1", m.pdb.Spec.MaxUnavailable)
	}
	var in []string
	for _, rule := range m.network.Spec.Ingress {
		for _, p := range rule.Ports {
			in = append(in, p.Port.StrVal)
		}
		if len(rule.From) == 0 {
			t.Errorf("the NetworkPolicy lets everybody reach %v", in)
		}
	}
	if !slices.Equal(in, []string{"http", "admin"}) || len(m.network.Spec.PolicyTypes) != 2 {
		t.Errorf("the NetworkPolicy lets in %v of %v", in, m.network.Spec.PolicyTypes)
	}

	backend := m.ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service
	if backend.Name != "doomproxy" || backend.Port.Name != "http" {
		t.Errorf("the Ingress leads to %v", backend)
	}
	for key, want := range map[string]string{"proxy-buffering": "off", "proxy-read-timeout": "1200", "proxy-body-size": "64m", "proxy-next-upstream": "off"} {
		if got := m.ingress.Annotations["nginx.ingress.kubernetes.io/"+key]; got != want {
			t.Errorf("the Ingress has %s %q, want %q", key, got, want)
		}
	}
}
