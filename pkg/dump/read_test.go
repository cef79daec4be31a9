package dump

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/trim"
)

const (
	nodeYAML = "apiVersion: v1\nkind: Node\nmetadata:\n  name: a\n"
	nodeJSON = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}`
	podJSON  = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"shop"},"spec":{"nodeName":"a"}}`

	listJSON = `{"apiVersion":"v1","items":[` + nodeJSON + `,` + podJSON + `],"kind":"List","metadata":{"resourceVersion":""}}`
	// listYAML has kubectl's layout: dashes without indentation, kind after the items.
	listYAML = `apiVersion: v1
items:
- apiVersion: v1
  kind: Node
  metadata:
    annotations:
      text: |
        - not an item

        kind: neither
    name: a
- apiVersion: v1
  kind: Pod
  metadata:
    name: p
    namespace: shop
  spec:
    nodeName: a
kind: List
metadata:
  resourceVersion: ""
`
)

func pack(text string, times int) string {
	for range times {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(text)) // writes to a buffer do not fail
		_ = w.Close()
		text = b.String()
	}
	return text
}

func TestReadAcceptsEveryFormat(t *testing.T) {
	cases := map[string]string{
		"a List in JSON":                 listJSON,
		"a List in YAML":                 listYAML,
		"a List in YAML, indented":       "kind: List\nitems:\n  - " + nodeJSON + "\n  # the pod\n  -\n    " + podJSON + "\n",
		"a List in YAML, in flow style":  "kind: List\nitems: [" + nodeJSON + "," + podJSON + "]\n",
		"a List in YAML with CRLF":       strings.ReplaceAll(listYAML, "\n", "\r\n"),
		"a document in flow style":       "{apiVersion: v1, kind: Node, metadata: {name: a}}\n---\n" + podJSON,
		"packed":                         pack(listYAML, 1),
		"packed in two parts":            pack(listYAML[:100], 1) + pack(listYAML[100:], 1),
		"with a byte order mark":         "\xef\xbb\xbf" + listJSON,
		"documents of YAML":              "# two\n---\n" + nodeYAML + "---\n" + podJSON + "\n...\n",
		"documents of JSON":              nodeJSON + "\n" + podJSON,
		"typed lists":                    `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"a"}}]}` + `{"kind":"PodList","apiVersion":"v1","items":[` + podJSON + `]}`,
		"a typed list in YAML":           "apiVersion: v1\nkind: NodeList\nitems:\n- metadata:\n    name: a\n---\n" + podJSON,
		"an empty List among others":     `{"kind":"List","items":null}` + listJSON + `{"kind":"List","items":[]}`,
		"nothing known of a third thing": listJSON + `{"kind":"Secret","apiVersion":"v1"}`,
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			d, err := Read(iotest.HalfReader(strings.NewReader(text)), Limits{}, trim.Object)
			if err != nil {
				t.Fatal(err)
			}
			if len(d.Nodes) != 1 || d.Nodes[0].Name != "a" {
				t.Errorf("nodes %v, want a", d.Nodes)
			}
			if len(d.Pods) != 1 || d.Pods[0].Namespace != "shop" || d.Pods[0].Spec.NodeName != "a" {
				t.Errorf("pods %v, want shop/p on a", d.Pods)
			}
		})
	}
}

func TestDumpKeepsOnlyRelevantObjectsAndFields(t *testing.T) {
	const text = `
apiVersion: v1
kind: Node
metadata: {name: a, creationTimestamp: 2026-03-01T10:00:00Z, managedFields: [{manager: kubelet}]}
status: {images: [{names: [x]}], conditions: [{type: Ready, lastHeartbeatTime: 2026-03-01T12:00:00Z}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p, ownerReferences: [{kind: ReplicaSet, name: r, controller: true}, {kind: Job, name: j}]}
spec: {nodeName: a, containers: [{name: c, image: i, resources: {requests: {cpu: 500m}}}], volumes: [{name: v, persistentVolumeClaim: {claimName: c}}, {name: w}]}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r, namespace: default, uid: "17"}, spec: {replicas: 3}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s}, spec: {replicas: 2, podManagementPolicy: Parallel}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 4, paused: true}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b}, spec: {maxUnavailable: 1}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c}, spec: {volumeName: pv}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv, namespace: ignored}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: old}, status: {phase: Terminating}}
---
{apiVersion: v1, kind: Service, metadata: {name: hook}, spec: {selector: {app: hook}, clusterIP: 10.0.0.1}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: m}
webhooks: [{name: m.example.com, clientConfig: {service: {namespace: default, name: hook}, caBundle: Y2E=}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: v}
webhooks: [{name: v.example.com, clientConfig: {service: {namespace: default, name: hook}, caBundle: Y2E=}}]
---
{apiVersion: v1, kind: Secret, metadata: {name: s}}
`
	d, err := Read(strings.NewReader(text), Limits{}, trim.Object)
	if err != nil {
		t.Fatal(err)
	}
	pod := d.Pods[0]
	checks := map[string]bool{
		"the time it was taken":                d.Taken.Equal(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)),
		"no images":                            d.Nodes[0].Status.Images == nil,
		"no managed fields":                    d.Nodes[0].ManagedFields == nil,
		"a uid made of kind and name":          d.Nodes[0].UID == "node//a",
		"a namespace where none is written":    pod.Namespace == "default" && pod.UID == "pod/default/p",
		"an owner found by its name":           pod.OwnerReferences[0].UID == "17",
		"an owner that is not there":           pod.OwnerReferences[1].UID == "job/default/j",
		"what a container asks for":            pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() == 500,
		"no image of a container":              pod.Spec.Containers[0].Image == "",
		"claimed volumes alone":                len(pod.Spec.Volumes) == 1,
		"a Deployment's scale, and rollout":    *d.Deployments[0].Spec.Replicas == 4 && d.Deployments[0].Spec.Paused,
		"a ReplicaSet's scale":                 *d.ReplicaSets[0].Spec.Replicas == 3,
		"a StatefulSet's order":                d.StatefulSets[0].Spec.PodManagementPolicy == "Parallel",
		"a budget":                             d.Budgets[0].Spec.MaxUnavailable.IntValue() == 1,
		"a claim's volume":                     d.Claims[0].Spec.VolumeName == "pv",
		"a volume, which has no namespace":     d.Volumes[0].Namespace == "",
		"a namespace that is being deleted":    d.EndingNamespaces()["old"],
		"a service's pods":                     d.Services[0].Spec.Selector["app"] == "hook" && d.Services[0].Spec.ClusterIP == "",
		"a webhook's service":                  d.Mutating[0].Webhooks[0].ClientConfig.Service.Name == "hook" && d.Mutating[0].Webhooks[0].ClientConfig.CABundle == nil,
		"another webhook's service":            d.Validating[0].Webhooks[0].ClientConfig.Service.Name == "hook" && d.Validating[0].Webhooks[0].ClientConfig.CABundle == nil,
		"how many objects of others there are": d.Ignored["Secret"] == 1,
	}
	for what, ok := range checks {
		if !ok {
			t.Errorf("not kept as it should be: %s", what)
		}
	}
}

// TestDumpScriptReadsSameKindsAsCommand checks that both print the same kinds.
func TestDumpScriptReadsSameKindsAsCommand(t *testing.T) {
	lines := strings.Split(Script(), "\n")
	first, _ := strings.CutPrefix(strings.TrimSpace(lines[0]), "KINDS=")
	second, _ := strings.CutPrefix(strings.TrimSpace(lines[1]), "KINDS=$KINDS")
	third, _ := strings.CutPrefix(strings.TrimSpace(lines[2]), "KINDS=$KINDS")
	last := strings.TrimSuffix(strings.TrimSpace(lines[3]), " > dump.json")
	if got := strings.Replace(last, "$KINDS", first+second+third, 1); got != Command() {
		t.Errorf("the script runs\n%s\nand the command is\n%s", got, Command())
	}
}

// TestKindMissingFromDumpCountsAsUnread checks that a kind without objects counts as unread, except if the dump has an empty list
// of that kind.
func TestKindMissingFromDumpCountsAsUnread(t *testing.T) {
	node := `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}`
	all := []string{
		"configmaps", "csinodes", "daemonsets", "deployments", "horizontalpodautoscalers", "ingresses", "jobs", "mutatingwebhookconfigurations", "namespaces", "nodeclaims", "nodepools", "nodes",
		"persistentvolumeclaims", "persistentvolumes", "poddisruptionbudgets", "pods", "replicasets", "resourceclaims", "resourcequotas", "services", "statefulsets", "targetgroupbindings",
		"validatingwebhookconfigurations",
	}
	cases := map[string]struct {
		text string
		has  []string
	}{
		"an object alone":           {node, []string{"nodes"}},
		"a list of anything":        {`{"kind":"List","apiVersion":"v1","items":[` + node + `]}`, []string{"nodes"}},
		"an empty list of anything": {node + `{"kind":"List","apiVersion":"v1","items":[]}`, []string{"nodes"}},
		"an empty list of a kind":   {node + `{"kind":"PodDisruptionBudgetList","apiVersion":"policy/v1","items":[]}`, []string{"nodes", "poddisruptionbudgets"}},
		"its items come first":      {node + `{"items":[],"kind":"ServiceList","apiVersion":"v1"}`, []string{"nodes", "services"}},
		"of another group":          {node + `{"kind":"ServiceList","apiVersion":"serving.knative.dev/v1","items":[]}`, []string{"nodes"}},
		"two documents of YAML":     {"kind: Node\napiVersion: v1\nmetadata: {name: a}\n---\nkind: JobList\napiVersion: batch/v1\nitems: []\n", []string{"jobs", "nodes"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d, err := Read(strings.NewReader(c.text), Limits{}, func(any) {})
			if err != nil {
				t.Fatal(err)
			}
			want := slices.DeleteFunc(slices.Clone(all), func(kind string) bool { return slices.Contains(c.has, kind) })
			if !slices.Equal(d.Unread, want) {
				t.Errorf("unread %v, want %v", d.Unread, want)
			}
		})
	}
	if why := Example().DescribeUnread(all...); why != "" {
		t.Errorf("of the built-in example: %s", why)
	}
}

// TestObjectLimitAppliesToEachObjectOfAList reads lists that are longer than an object may be.
func TestObjectLimitAppliesToEachObjectOfAList(t *testing.T) {
	const n = 2000
	var inJSON, inYAML strings.Builder
	inJSON.WriteString(`{"kind":"List","items":[`)
	inYAML.WriteString("items:\n")
	for i := range n {
		node := strings.ReplaceAll(nodeJSON, `"a"`, fmt.Sprintf(`"node-%d","annotations":{"text":%q}`, i, strings.Repeat("x", 500)))
		if i > 0 {
			inJSON.WriteString(",\n")
		}
		inJSON.WriteString(node)
		inYAML.WriteString("- " + node + "\n")
	}
	inJSON.WriteString("]}")
	inYAML.WriteString("kind: List\n")
	for name, text := range map[string]string{"JSON": inJSON.String(), "YAML": inYAML.String()} {
		t.Run(name, func(t *testing.T) {
			d, err := Read(strings.NewReader(text), Limits{Object: 4 << 10}, trim.Object)
			if err != nil {
				t.Fatal(err)
			}
			if len(d.Nodes) != n {
				t.Errorf("%d nodes, want %d", len(d.Nodes), n)
			}
		})
	}
}

// endlessLine is a reader of one line that never ends.
type endlessLine byte

func (e endlessLine) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

func TestInvalidDumpsAreRejected(t *testing.T) {
	small := Limits{YAML: 300, Object: 200, Objects: 2}
	node := func(name string) string { return strings.ReplaceAll(nodeJSON, `"a"`, `"`+name+`"`) }
	cases := map[string]struct {
		in     io.Reader
		limits Limits
		want   string
	}{
		"nothing":       {in: strings.NewReader(""), want: "it is empty: write it with " + Command()},
		"blank lines":   {in: strings.NewReader("\n# nothing\n---\n"), want: "it is empty: write it with " + Command()},
		"an empty List": {in: strings.NewReader(`{"kind":"List","items":[]}`), want: "it is empty: write it with " + Command()},

		"JSON cut in an object":    {in: strings.NewReader(listJSON[:len(listJSON)-80]), want: "the file ends in the middle of an object, after 1 whole object: write it again with " + Command()},
		"JSON cut behind a name":   {in: strings.NewReader(`{"items"`), want: "the file ends in the middle of an object, after 0 whole objects: write it again with " + Command()},
		"JSON cut in the List":     {in: strings.NewReader(listJSON[:len(listJSON)-2]), want: "the file ends in the middle of an object, after 2 whole objects: write it again with " + Command()},
		"YAML cut behind an item":  {in: strings.NewReader(before(listYAML, "kind: List")), want: "the file ends in the middle of an object, after 2 whole objects: write it again with " + Command()},
		"YAML cut in a string":     {in: strings.NewReader("items:\n- kind: \"No"), want: "document 1 is not YAML: line 3: found unexpected end of stream: write the file with " + Command()},
		"gzip cut":                 {in: strings.NewReader(pack(listYAML, 1)[:60]), want: "document 1: the gzip data ends too early: write the file again with " + Command() + " | gzip"},
		"gzip cut at once":         {in: strings.NewReader(gzipMagic), want: "the gzip data ends too early: write the file again with " + Command() + " | gzip"},
		"gzip with a flipped bit":  {in: strings.NewReader(corruptChecksum(pack(listJSON, 1))), want: "object 3: unpacking: gzip: invalid checksum: write it again with " + Command() + " | gzip"},
		"gzip inside gzip":         {in: strings.NewReader(pack(listJSON, 2)), want: "gzip inside gzip: unpack it with gunzip first"},
		"ten levels of gzip":       {in: strings.NewReader(pack(listJSON, 10)), want: "gzip inside gzip: unpack it with gunzip first"},
		"a reader that fails":      {in: iotest.ErrReader(errors.New("disk on fire")), want: "disk on fire"},
		"a reader that fails late": {in: io.MultiReader(strings.NewReader(listJSON[:80]), iotest.ErrReader(errors.New("disk on fire"))), want: "object 1: disk on fire"},

		"UTF-16":                    {in: strings.NewReader("\xff\xfe{\x00"), want: "not UTF-8 but UTF-16, as PowerShell's > writes it: use | Out-File -Encoding utf8 instead"},
		"a program":                 {in: strings.NewReader("\x7fELF\x00\x01"), want: "not UTF-8, so neither JSON nor YAML: write it with " + Command()},
		"Latin-1 far behind":        {in: strings.NewReader(nodeYAML + strings.Repeat("#\n", 400) + "x: \xe9\n"), want: "document 1 is not YAML: incomplete UTF-8 octet sequence: write the file with " + Command()},
		"Latin-1 in a JSON string":  {in: strings.NewReader("{" + strings.Repeat(" ", 600) + strings.ReplaceAll(nodeJSON[1:], `"a"`, "\"\xe9\"")), want: "object 1 is not UTF-8: write the file with " + Command()},
		"a table":                   {in: strings.NewReader("NAME   STATUS\nip-10  Ready\n"), want: "object 1 is plain text, not an object of Kubernetes: write the file with " + Command()},
		"a word":                    {in: strings.NewReader(`"word"`), want: "object 1 is plain text, not an object of Kubernetes: write the file with " + Command()},
		"an array":                  {in: strings.NewReader("[" + nodeJSON + "]"), want: "object 1 is an array, not a List of Kubernetes: write it with " + Command()},
		"broken JSON":               {in: strings.NewReader(`{"kind":List}`), want: "object 1 is not JSON from byte 8 on: invalid character 'L' looking for beginning of value: write the file with " + Command()},
		"broken YAML":               {in: strings.NewReader("items:\n- kind: Node\n  metadata: {name: a\n"), want: "document 1 is not YAML: line 3: did not find expected ',' or '}': write the file with " + Command()},
		"items that are no array":   {in: strings.NewReader(`{"kind":"List","items":{}}`), want: "object 1: items is not an array: write the file with " + Command()},
		"items that are no list":    {in: strings.NewReader("kind: List\nitems:\n  a: 1\n"), want: "object 1: items is not an array: write the file with " + Command()},
		"an item that is no object": {in: strings.NewReader(`{"kind":"List","items":[1]}`), want: "object 1 is plain text, not an object of Kubernetes: write the file with " + Command()},

		"another kind":                {in: strings.NewReader("kind: Config\napiVersion: v1\n"), want: "found 1 Config, but no objects of a cluster: write it with " + Command()},
		"four other kinds":            {in: strings.NewReader(`{"kind":"A"}{"kind":"B"}{"kind":"C"}{"kind":"D"}`), want: "found 1 A, 1 B, 1 C, more, but no objects of a cluster: write it with " + Command()},
		"no nodes":                    {in: strings.NewReader(podJSON), want: "found 1 object, but no nodes: write it with " + Command()},
		"no kind":                     {in: strings.NewReader("replicaCount: 1\n"), want: "object 1 has no kind: write the file with " + Command()},
		"items of something else":     {in: strings.NewReader(`{"kind":"Table","items":[` + nodeJSON + `]}`), want: "found a Table with items instead of a List: write the file with " + Command()},
		"a List inside a List":        {in: strings.NewReader(`{"kind":"List","items":[` + listJSON + `]}`), want: "object 1 is a list (List) inside a List: write the file with one command: " + Command()},
		"a NodeList inside a List":    {in: strings.NewReader("kind: List\nitems:\n- kind: NodeList\n  items: []\n"), want: "object 1 is a list (NodeList) inside a List: write the file with one command: " + Command()},
		"the same node twice":         {in: strings.NewReader(nodeJSON + nodeJSON), want: "object 2 is Node a for the second time: keep only one of them"},
		"the same pod twice":          {in: strings.NewReader(podJSON + nodeJSON + podJSON), want: "object 3 is Pod shop/p for the second time: keep only one of them"},
		"two objects with one uid":    {in: strings.NewReader(strings.ReplaceAll(nodeJSON+node("b"), `"name"`, `"uid":"1","name"`)), want: "object 2 (Node b) and Node a have the same uid: remove one of the two uids, which is then replaced"},
		"an object without a name":    {in: strings.NewReader(node("")), want: "object 1 is a Node without a name: give it metadata.name"},
		"a field of another type":     {in: strings.NewReader(`{"apiVersion":"v1","kind":"Node","metadata":{"name":["a"]}}`), want: "object 1: json: cannot unmarshal array into Go struct field .metadata.name of type string: write the file with " + Command()},
		"a number without an end":     {in: strings.NewReader(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"},"status":{"capacity":{"cpu":"1e-99999999"}}}`), want: "object 1 (Node a) has a number with too many digits: write the file with " + Command()},
		"another field's type":        {in: strings.NewReader(nodeYAML + "spec: {taints: 1}\n"), want: "object 1 (Node a): json: cannot unmarshal number into Go struct field NodeSpec.spec.taints of type []v1.Taint: write the file with " + Command()},
		"a line without an end":       {in: endlessLine('x'), want: "document 1: more than 64 MiB of YAML, which must fit into memory: use JSON, which is read in parts: " + Command()},
		"spaces without an end":       {in: endlessLine(' '), want: "document 1: more than 64 MiB of YAML, which must fit into memory: use JSON, which is read in parts: " + Command()},
		"a string without an end":     {in: io.MultiReader(strings.NewReader(`{"kind":"`), endlessLine('x')), want: "object 1: an object is longer than 4 MiB, and no Kubernetes object is: write the file with " + Command()},
		"brackets without an end":     {in: io.MultiReader(strings.NewReader(`{"items":`), endlessLine('[')), want: "object 1 is not JSON from byte 10 on: invalid character '[' exceeded max depth: write the file with " + Command()},
		"an object over the limit":    {in: strings.NewReader(`{"kind":"` + strings.Repeat("x", 700) + `"}`), limits: small, want: "object 1: an object is longer than 200 bytes, and no Kubernetes object is: write the file with " + Command()},
		"a YAML over the limit":       {in: strings.NewReader(nodeYAML + strings.Repeat("#\n", 20_000)), limits: small, want: "document 1: more than 300 bytes of YAML, which must fit into memory: use JSON, which is read in parts: " + Command()},
		"a text over the limit":       {in: strings.NewReader(nodeJSON + strings.Repeat(" ", 20_000)), limits: Limits{JSON: 1000}, want: "object 2: more than 1000 bytes of text: leave out namespaces and kinds that do not matter to the node group"},
		"text behind a document":      {in: strings.NewReader(nodeYAML + "...\n" + podJSON), want: "document 1 has text after its end: put --- between documents"},
		"text behind a separator":     {in: strings.NewReader(nodeYAML + "--- a: 1\n"), want: "document 1 is not YAML: invalid Yaml document separator: a: 1: write the file with " + Command()},
		"a bomb":                      {in: strings.NewReader(pack("{"+strings.Repeat(" ", 8<<20), 1)), limits: Limits{JSON: 1000}, want: "object 1: more than 1000 bytes of text: leave out namespaces and kinds that do not matter to the node group"},
		"objects over the limit":      {in: strings.NewReader(node("a") + node("b") + node("c")), limits: small, want: "more than 2 objects: leave out namespaces and kinds that do not matter to the node group"},
		"a word longer than a reader": {in: strings.NewReader(`{"kind":"` + strings.Repeat("x", 300) + `"}`), want: "found 1 " + strings.Repeat("x", 200) + "…, but no objects of a cluster: write it with " + Command()},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d, err := Read(c.in, c.limits, trim.Object)
			if err == nil {
				t.Fatalf("read %+v, want an error", d)
			}
			if err.Error() != c.want {
				t.Errorf("error %q\nwant  %q", err, c.want)
			}
		})
	}
}

// corruptChecksum changes the checksum of a gzip file.
func corruptChecksum(packed string) string {
	b := []byte(packed)
	b[len(b)-8] ^= 1
	return string(b)
}

// before returns the text before the first occurrence of the mark.
func before(text, mark string) string {
	head, _, _ := strings.Cut(text, mark)
	return head
}

// TestReadRejectsSmallFilesThatNeedMuchMemory checks that a small file does not need much time or memory.
func TestReadRejectsSmallFilesThatNeedMuchMemory(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"aliases of aliases": {"a: &a [" + strings.Repeat("x,", 30_000) + "]\nb: &b [" + strings.Repeat("*a,", 300) + "]\nc: [" + strings.Repeat("*b,", 300) + "]\n" + nodeYAML, "YAML aliases expand"},
		"an alias of itself": {"a: &a [*a]\n" + nodeYAML, "YAML aliases expand"},
		"digits":             {`{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"},"status":{"capacity":{"cpu":"` + strings.Repeat("1", 4_000_000) + `"}}}`, "with too many digits"},
		"digits in YAML":     {nodeYAML + "status:\n  capacity:\n    cpu: " + strings.Repeat("1", 3_000_000) + "\n", "with too many digits"},
		"quoted digits":      {nodeYAML + "status:\n  capacity:\n    cpu: '." + strings.Repeat("1", 3_000_000) + "'\n", "with too many digits"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			_, err := Read(strings.NewReader(c.text), Limits{}, trim.Object)
			if took := time.Since(began); err == nil || !strings.Contains(err.Error(), c.want) || took > 3*time.Second {
				t.Errorf("after %v got the error %v, want one about %q at once", took, err, c.want)
			}
		})
	}
}

// TestDumpWithYAMLAliasesIsAccepted checks that aliases of normal size are accepted.
func TestDumpWithYAMLAliasesIsAccepted(t *testing.T) {
	d, err := Read(strings.NewReader("apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: &l {pool: w}, annotations: *l}\n"), Limits{}, trim.Object)
	if err != nil || d.Nodes[0].Labels["pool"] != "w" {
		t.Errorf("got %v (%v), want a node with the labels", d, err)
	}
}

// TestObjectsOfUnsupportedVersionsAreReported checks that objects in an unsupported version are not treated as if there were none.
func TestObjectsOfUnsupportedVersionsAreReported(t *testing.T) {
	const node = `{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"}}`
	const again = ", a version that is not supported: write these objects again with kubectl get "
	for name, c := range map[string]struct{ objects, kind, why string }{
		"an older version": {
			`{"kind":"PodDisruptionBudget","apiVersion":"policy/v1beta1","metadata":{"name":"web"}}`, "poddisruptionbudgets",
			"the dump has poddisruptionbudgets of policy/v1beta1" + again + "poddisruptionbudgets.v1.policy -A -o json",
		},
		"an older group": {
			`{"kind":"Ingress","apiVersion":"extensions/v1beta1","metadata":{"name":"web"}}`, "ingresses",
			"the dump has ingresses of extensions/v1beta1" + again + "ingresses.v1.networking.k8s.io -A -o json",
		},
		"items of a typed list": {
			`{"kind":"PodDisruptionBudgetList","apiVersion":"policy/v1beta1","items":[{"metadata":{"name":"web"}}]}`, "poddisruptionbudgets",
			"the dump has poddisruptionbudgets of policy/v1beta1" + again + "poddisruptionbudgets.v1.policy -A -o json",
		},
		"another kind of that name": {`{"kind":"Service","apiVersion":"serving.knative.dev/v1","metadata":{"name":"web"}}`, "services", "the dump has no services"},
		"both versions": {
			`{"kind":"PodDisruptionBudget","apiVersion":"policy/v1beta1","metadata":{"name":"web"}}{"kind":"PodDisruptionBudget","apiVersion":"policy/v1","metadata":{"name":"api"}}`,
			"poddisruptionbudgets",
			"the dump has poddisruptionbudgets of policy/v1beta1" + again + "poddisruptionbudgets.v1.policy -A -o json",
		},
		"none": {"", "poddisruptionbudgets", "the dump has no poddisruptionbudgets"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Read(strings.NewReader(node+c.objects), Limits{}, func(any) {})
			if err != nil {
				t.Fatal(err)
			}
			if why := d.DescribeUnread(c.kind); why != c.why {
				t.Errorf("got %q, want %q", why, c.why)
			}
			if why := d.DescribeUnread(c.kind, "secrets", "jobs"); !strings.HasPrefix(why, "the dump has no jobs") {
				t.Errorf("with another kind: got %q", why)
			}
		})
	}
}
