package workload

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// within fails if a call takes long: some quantities never finish comparing.
func within(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("it takes too long")
	}
}

func quantity(t *testing.T, text string) resource.Quantity {
	t.Helper()
	parsed, err := resource.ParseQuantity(text)
	require.NoError(t, err)
	return parsed
}

// TestStrip: a Node keeps cpu, memory and pods, if they are plain numbers of a possible size.
func TestStrip(t *testing.T) {
	for name, tt := range map[string]struct {
		resource corev1.ResourceName
		text     string
		want     string // empty if it is dropped
	}{
		"cores":                     {corev1.ResourceCPU, "4", "4"},
		"a part of a core":          {corev1.ResourceCPU, "3920m", "3920m"},
		"half a core":               {corev1.ResourceCPU, "0.5", "500m"},
		"memory":                    {corev1.ResourceMemory, "8148532Ki", "8148532Ki"},
		"memory in bytes":           {corev1.ResourceMemory, "8000000001", "8000000001"},
		"pods":                      {corev1.ResourcePods, "110", "110"},
		"none":                      {corev1.ResourcePods, "0", "0"},
		"the largest memory":        {corev1.ResourceMemory, "256Ti", "256Ti"},
		"more memory":               {corev1.ResourceMemory, "257Ti", ""},
		"too many cores":            {corev1.ResourceCPU, "100001", ""},
		"a long number":             {corev1.ResourceMemory, "999999999999999999", ""},
		"many digits":               {corev1.ResourceMemory, strings.Repeat("9", 100), ""},
		"an exponent":               {corev1.ResourceCPU, "1e3", ""},
		"never finishes comparing":  {corev1.ResourceCPU, "1e999999999", ""},
		"a large exponent of zero":  {corev1.ResourceMemory, "0e999999999", "0"},
		"a negative exponent":       {corev1.ResourceCPU, "1e-9", ""},
		"exa":                       {corev1.ResourceMemory, "1E", ""},
		"exbi":                      {corev1.ResourceMemory, "1Ei", ""},
		"nano":                      {corev1.ResourceCPU, "1n", ""},
		"negative":                  {corev1.ResourceCPU, "-1", ""},
		"another resource":          {corev1.ResourceEphemeralStorage, "1Gi", ""},
		"an extended resource":      {"example.test/gpu", "1e999999999", ""},
		"negative with an exponent": {corev1.ResourcePods, "-1e999999999", ""},
	} {
		t.Run(name, func(t *testing.T) {
			within(t, func() {
				list := corev1.ResourceList{tt.resource: quantity(t, tt.text)}
				node := &corev1.Node{Status: corev1.NodeStatus{Capacity: list, Allocatable: list, Images: []corev1.ContainerImage{{}}}}
				strip(node)
				require.Empty(t, node.Status.Images)
				if tt.want == "" {
					require.Nil(t, node.Status.Capacity)
					require.Nil(t, node.Status.Allocatable)
					return
				}
				kept := node.Status.Capacity[tt.resource]
				require.Equal(t, tt.want, kept.String())
				again := node.DeepCopy()
				strip(again)
				require.True(t, equality.Semantic.DeepEqual(node, again), "twice is once")
				require.Equal(t, shareOf(node), shareOf(again))
			})
		})
	}
}

// FuzzStrip: a Node that the scanner accepts is bounded, compared and summed up in a short time.
func FuzzStrip(f *testing.F) {
	for _, seed := range []string{"1e-2000000000", "1e999999999", "0e999999999", "12345678901234567890e99", "1Ki", " .5E-99", "0.0001m", "+1E+1", "-9223372036854775808", "99999999999999Ti"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4<<10 || strings.ContainsAny(text, "\"\\") {
			return
		}
		if s := (scanner{limit: 8 << 10}); s.read([]byte(`{"a":"`+text+`"}`)) != nil {
			return
		}
		parsed, err := resource.ParseQuantity(strings.TrimSpace(text))
		if err != nil {
			return
		}
		within(t, func() {
			list := corev1.ResourceList{corev1.ResourceCPU: parsed, corev1.ResourceMemory: parsed, corev1.ResourcePods: parsed}
			node := corev1.Node{Status: corev1.NodeStatus{Capacity: list, Allocatable: list}}
			strip(&node)
			require.True(t, equality.Semantic.DeepEqual(&node, node.DeepCopy()))
			totals := totalsOf([]corev1.Node{node, node})
			for _, sum := range totals.Capacity {
				require.GreaterOrEqual(t, sum.Sign(), 0)
			}
		})
	})
}

func TestTotalsOf(t *testing.T) {
	node := func(os, arch string, taints ...string) corev1.Node {
		list := corev1.ResourceList{corev1.ResourceCPU: quantity(t, "2"), corev1.ResourceMemory: quantity(t, "4Gi"), corev1.ResourcePods: quantity(t, "110")}
		made := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Capacity: list,
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: quantity(t, "1900m")}, NodeInfo: corev1.NodeSystemInfo{OperatingSystem: os, Architecture: arch}}}
		for _, taint := range taints {
			made.Spec.Taints = append(made.Spec.Taints, corev1.Taint{Key: taint})
		}
		strip(&made)
		return made
	}
	all := []corev1.Node{node("linux", "amd64"), node("linux", "amd64", "node-role.kubernetes.io/control-plane"), node("windows", "amd64"), node("", strings.Repeat("x", 99), "dedicated")}
	got := totalsOf(all)
	require.Equal(t, int32(4), got.Nodes)
	require.Equal(t, int32(1), got.LinuxWorkers)
	require.Equal(t, "amd64", got.Arch)
	require.Equal(t, amounts{8000, 16 << 30, 440}, amountsOf(got.Capacity))
	require.Equal(t, amounts{7600, 0, 0}, amountsOf(got.Allocatable))
	require.Equal(t, MixedArch, totalsOf(append(all, node("linux", "arm64"), node("linux", "amd64"))).Arch)
	require.Equal(t, amounts{}, amountsOf(totalsOf(nil).Capacity))

	sum := amounts{math.MaxInt64 - 1}
	sum.add(amounts{2, 3})
	require.Equal(t, amounts{math.MaxInt64, 3}, sum)
}

// TestTotalsWatcher: only changes of the totals are reported.
func TestTotalsWatcher(t *testing.T) {
	calls := 0
	w := &totalsWatcher{notify: func() { calls++ }}
	node := corev1.Node{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{corev1.ResourceCPU: quantity(t, "2")}, NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "linux"}}}
	strip(&node)
	beat := node.DeepCopy()
	beat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Now()}}
	w.updated(&node, beat)
	require.Zero(t, calls)
	larger := node.DeepCopy()
	larger.Status.Capacity[corev1.ResourceCPU] = quantity(t, "4")
	w.updated(&node, larger)
	tainted := node.DeepCopy()
	tainted.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/etcd"}}
	w.updated(&node, tainted)
	require.Equal(t, 2, calls)
}
