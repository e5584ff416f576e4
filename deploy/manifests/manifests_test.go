// Package manifests checks the manifests for Kubernetes and the Compose file beside it by the types of those. It is a
// module of its own, for these have many dependencies.
package manifests

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// decode decodes manifests strictly: a field that Kubernetes does not know, or that is there twice, is an error.
func decode(text string) (all []runtime.Object, err error) {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme} {
		if err := add(known); err != nil {
			return nil, err
		}
	}
	decoder := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
	parts := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		part, err := parts.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		object, _, err := decoder.Decode(part, nil, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, object)
	}
}

func manifests(t *testing.T) (all []runtime.Object) {
	t.Helper()
	files, err := filepath.Glob("../kubernetes/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		some, err := decode(string(text))
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		all = append(all, some...)
	}
	if len(all) != 5 {
		t.Fatalf("%d objects", len(all))
	}
	return all
}

func TestAWrongManifestIsSeen(t *testing.T) {
	t.Parallel()
	const good = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  ports: [{port: 1}]\n"
	if _, err := decode(good); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		strings.Replace(good, "port:", "prot:", 1), strings.Replace(good, "port: 1", "port: one", 1), strings.Replace(good, "Service", "Srvice", 1),
		good + "  ports: []\n", strings.Replace(good, "v1", "v7", 1),
	} {
		if _, err := decode(bad); err == nil {
			t.Errorf("this is taken:\n%s", bad)
		}
	}
}

// shutdown is what a command waits at its end.
func shutdown(t *testing.T, command []string) time.Duration {
	t.Helper()
	i := slices.Index(command, "--shutdown")
	if i < 0 {
		t.Fatalf("%q has no --shutdown", command)
	}
	d, err := time.ParseDuration(command[i+1])
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestManifestsAreOfKubernetesTypesAndFitTogether(t *testing.T) {
	t.Parallel()
	var pods []corev1.PodTemplateSpec
	secrets, services := map[string]bool{}, 0
	for _, object := range manifests(t) {
		switch o := object.(type) {
		case *appsv1.Deployment:
			pods = append(pods, o.Spec.Template)
			for k, v := range o.Spec.Selector.MatchLabels {
				if o.Spec.Template.Labels[k] != v {
					t.Errorf("%s selects other pods than its own", o.Name)
				}
			}
			probed(t, o.Name, o.Spec.Template)
		case *batchv1.Job:
			pods = append(pods, o.Spec.Template)
		case *corev1.Secret:
			secrets[o.Name] = strings.Contains(o.StringData["DIBS_DB"], "?sslmode=verify-full") && o.StringData["DIBS_TOKENS"] != ""
		case *corev1.Service:
			services++
			if !slices.ContainsFunc(manifests(t), func(object runtime.Object) bool {
				d, ok := object.(*appsv1.Deployment)
				return ok && d.Spec.Template.Labels["app.kubernetes.io/name"] == o.Spec.Selector["app.kubernetes.io/name"] &&
					d.Spec.Template.Spec.Containers[0].Ports[0].Name == o.Spec.Ports[0].TargetPort.StrVal
			}) {
				t.Errorf("the service %s leads nowhere", o.Name)
			}
			if o.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
				t.Errorf("the service %s sends a browser to another pod than the one that it has logged in to", o.Name)
			}
		}
	}
	if len(pods) != 3 || services != 1 {
		t.Fatalf("%d pods, %d services", len(pods), services)
	}
	for _, pod := range pods {
		if mount := pod.Spec.AutomountServiceAccountToken; mount == nil || *mount {
			t.Errorf("the pod of %s gets a token of Kubernetes", pod.Spec.Containers[0].Name)
		}
		if image := pod.Spec.Containers[0].Image; strings.HasSuffix(image, ":latest") || !strings.Contains(image, ":") {
			t.Errorf("the image %s has no version", image)
		}
		c := pod.Spec.Containers[0]
		if len(c.EnvFrom) != 1 || !secrets[c.EnvFrom[0].SecretRef.Name] {
			t.Errorf("%s does not get the secret", c.Name)
		}
		if s := c.SecurityContext; !*s.RunAsNonRoot || *s.AllowPrivilegeEscalation {
			t.Errorf("%s may do more than it needs", c.Name)
		}
	}
}

// probed checks the probes, the port and the time to stop of a deployment's pod.
func probed(t *testing.T, name string, pod corev1.PodTemplateSpec) {
	t.Helper()
	c := pod.Spec.Containers[0]
	live, ready, port := c.LivenessProbe.HTTPGet, c.ReadinessProbe.HTTPGet, c.Ports[0]
	if live.Path != "/healthz" || ready.Path != "/readyz" || live.Port.StrVal != port.Name || ready.Port.StrVal != port.Name {
		t.Errorf("%s: the probes are %v and %v", name, live, ready)
	}
	command := slices.Concat(c.Command, c.Args)
	if i := slices.Index(command, "--listen"); command[i+1] != ":"+pod.Annotations["prometheus.io/port"] || pod.Annotations["prometheus.io/port"] != strconv.Itoa(int(port.ContainerPort)) {
		t.Errorf("%s listens on %s, and has the port %v", name, command[i+1], port)
	}
	if grace := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second; grace < shutdown(t, command)+10*time.Second {
		t.Errorf("%s is killed after %v", name, grace)
	}
}

// TestTheComposeFileIsOne has Compose's own library read it.
func TestTheComposeFileIsOne(t *testing.T) {
	t.Parallel()
	options, err := cli.NewProjectOptions([]string{"../compose/compose.yaml"}, cli.WithoutEnvironmentResolution)
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, service := range project.Services {
		for _, v := range service.Volumes {
			if _, err := os.Stat(v.Source); v.Type == "bind" && err != nil {
				t.Errorf("%s mounts %s: %v", name, v.Source, err)
			}
		}
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s opens port %s to others", name, port.Published)
			}
		}
		if b := service.Build; b != nil {
			if _, err := os.Stat(filepath.Join(b.Context, b.Dockerfile)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if service.StopGracePeriod != nil && time.Duration(*service.StopGracePeriod) < shutdown(t, service.Command)+10*time.Second {
			t.Errorf("%s is killed after %v", name, *service.StopGracePeriod)
		}
	}
	if len(project.Services) != 6 {
		t.Errorf("%d services", len(project.Services))
	}
}
