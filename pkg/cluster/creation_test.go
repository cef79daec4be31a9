package cluster

import (
	"context"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
)

// TestRefusedPodCreationsAreExplained uses an API server with the default admission plugins.
func TestRefusedPodCreationsAreExplained(t *testing.T) {
	t.Parallel()
	c := controlplane.ForTest(t, controlplane.Options{ServiceAccounts: true})
	t.Run("creation", func(t *testing.T) { testCreation(t, newSpace(t, c)) })
}

// testCreation asks about the pods of three kinds of controllers. At first the API server would create more pods, and then it
// refuses them for one reason after the other. No pod is stored.
func testCreation(t *testing.T, s *space) {
	var pods []*corev1.Pod
	for app, create := range map[string]func(*testing.T, *space){"web": createWeb, "db": createStateful, "once": createJob} {
		create(t, s)
		pods = append(pods, s.podOf(t, app))
	}
	for _, pod := range pods {
		s.awaitAnswer(t, pod, "")
	}
	web := s.podOf(t, "web")
	s.bindAll(t)
	s.grantAll(t, publishedGrants(t, "kubernetes-read.yaml"))
	for says, refuse := range map[string]func(t *testing.T, s *space) (undo func()){
		"violates PodSecurity":                 enforcePodSecurity,
		"exceeded quota: few":                  limitPods,
		"no PriorityClass with name " + s.name: deleteClass,
		"error looking up service account":     deleteAccount,
		"failed calling webhook":               registerSilentWebhook,
	} {
		undo := refuse(t, s)
		s.awaitAnswer(t, web, says)
		s.checkMissingRight(t, web)
		undo()
		s.awaitAnswer(t, web, "")
	}
	s.grantAll(t, publishedGrants(t, "kubernetes-read.yaml", "kubernetes-probe.yaml"))
	for _, pod := range pods {
		s.eventually(t, "a user with the published roles to be told about "+pod.Name, func(ctx context.Context) (bool, error) {
			return TryCreation(ctx, s.clientOf(t, s.name), pod) == Creation{}, ctx.Err()
		})
	}
	gone := web.DeepCopy()
	gone.OwnerReferences[0].Name = "gone"
	if answer := TryCreation(t.Context(), s.client, gone); answer.Unverified == "" || answer.Refused != "" {
		t.Errorf("of a controller that is gone: %+v, want unverified", answer)
	}
	list, err := s.Client().CoreV1().Pods(s.name).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(list.Items) != len(pods) {
		t.Errorf("there are %d pods, before %d", len(list.Items), len(pods))
	}
}

// checkMissingRight asks as a user who may read but not create pods. The answer is then not a refusal of the pod, even if the server
// would refuse it.
func (s *space) checkMissingRight(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	client := s.clientOf(t, s.name)
	s.eventually(t, "a user who may not create pods to be told so", func(ctx context.Context) (bool, error) {
		return TryCreation(ctx, client, pod) == Creation{Unverified: "you may not create pods in namespace " + s.name}, ctx.Err()
	})
}

// awaitAnswer waits until the API server refuses a pod like the existing one with this text, or would create it if refusal is empty.
func (s *space) awaitAnswer(t *testing.T, pod *corev1.Pod, refusal string) {
	t.Helper()
	var last Creation
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("of pod %s it says %+v", pod.Name, last)
		}
	})
	s.eventually(t, "the answer "+refusal+" about pods like "+pod.Name, func(ctx context.Context) (bool, error) {
		last = TryCreation(ctx, s.client, pod)
		return last.Unverified == "" && (last.Refused != "") == (refusal != "") && strings.Contains(last.Refused, refusal), ctx.Err()
	})
}

// podOf waits for the only pod of an app.
func (s *space) podOf(t *testing.T, app string) (pod *corev1.Pod) {
	t.Helper()
	s.eventually(t, "a pod of "+app, func(ctx context.Context) (bool, error) {
		list, err := s.Client().CoreV1().Pods(s.name).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		pod = &list.Items[0]
		return true, nil
	})
	return pod
}

// createWeb creates a Deployment whose pods have their own ServiceAccount and PriorityClass.
func createWeb(t *testing.T, s *space) {
	s.createAccount(t)
	s.createClass(t)
	s.deployment(t, "web", func(spec *appsv1.DeploymentSpec) {
		spec.Template.Spec.ServiceAccountName, spec.Template.Spec.PriorityClassName = "web", s.name
		spec.Template.Spec.HostNetwork = true
	})
}

func (s *space) createAccount(t *testing.T) {
	t.Helper()
	_, err := s.Client().CoreV1().ServiceAccounts(s.name).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{})
	must(t, err)
}

func (s *space) createClass(t *testing.T) {
	t.Helper()
	_, err := s.Client().SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: s.name}, Value: 7}, metav1.CreateOptions{})
	must(t, err)
}

// createStateful creates a StatefulSet each of whose pods has a claim.
func createStateful(t *testing.T, s *space) {
	labels := map[string]string{"app": "db"}
	container := corev1.Container{Name: "app", Image: "app", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{container}}},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}},
	}}
	_, err := s.Client().AppsV1().StatefulSets(s.name).Create(t.Context(), set, metav1.CreateOptions{})
	must(t, err)
}

// createJob creates a Job. The test asks about a copy of its pod.
func createJob(t *testing.T, s *space) {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "once"}},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, PriorityClassName: "system-node-critical", Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "once"}, Spec: batchv1.JobSpec{Template: template}}
	_, err := s.Client().BatchV1().Jobs(s.name).Create(t.Context(), job, metav1.CreateOptions{})
	must(t, err)
}

func enforcePodSecurity(t *testing.T, s *space) (undo func()) {
	set := func(level string) {
		patch := `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":` + level + `}}}`
		_, err := s.Client().CoreV1().Namespaces().Patch(t.Context(), s.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		must(t, err)
	}
	set(`"restricted"`)
	return func() { set("null") }
}

func limitPods(t *testing.T, s *space) (undo func()) {
	quotas := s.Client().CoreV1().ResourceQuotas(s.name)
	_, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}},
	}, metav1.CreateOptions{})
	must(t, err)
	return func() { must(t, quotas.Delete(t.Context(), "few", metav1.DeleteOptions{})) }
}

func deleteClass(t *testing.T, s *space) (undo func()) {
	must(t, s.Client().SchedulingV1().PriorityClasses().Delete(t.Context(), s.name, metav1.DeleteOptions{}))
	return func() { s.createClass(t) }
}

func deleteAccount(t *testing.T, s *space) (undo func()) {
	must(t, s.Client().CoreV1().ServiceAccounts(s.name).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	return func() { s.createAccount(t) }
}

// registerSilentWebhook registers a webhook for new pods that does not answer.
func registerSilentWebhook(t *testing.T, s *space) (undo func()) {
	none, url := admissionv1.SideEffectClassNone, "https://127.0.0.1:1/"
	configs := s.Client().AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := configs.Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "pods.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      admissionv1.WebhookClientConfig{URL: &url},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.name}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}, metav1.CreateOptions{})
	must(t, err)
	return func() { must(t, configs.Delete(t.Context(), s.name, metav1.DeleteOptions{})) }
}
