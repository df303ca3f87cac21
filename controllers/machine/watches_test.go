package machine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	managementv3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// passes reports whether a change is let pass.
func passes[T client.Object](p predicate.TypedPredicate[T], was, is T) bool {
	return p.Update(event.TypedUpdateEvent[T]{ObjectOld: was, ObjectNew: is})
}

func TestChanged_letsPassAllButStatus(t *testing.T) {
	base := func() *metav1.PartialObjectMetadata {
		m := metadataOf(rkev1.MachineGroupVersion.WithKind("AcmeMachine"))
		m.Generation, m.ResourceVersion = 1, "1"
		m.Annotations, m.Finalizers = map[string]string{"a": "b"}, []string{"f"}
		m.OwnerReferences = []metav1.OwnerReference{{Name: "owner", UID: "u"}}
		return m
	}
	now := metav1.Now()
	for name, tt := range map[string]struct {
		change func(*metav1.PartialObjectMetadata)
		want   bool
	}{
		"status":   {func(m *metav1.PartialObjectMetadata) { m.ResourceVersion = "2" }, false},
		"labels":   {func(m *metav1.PartialObjectMetadata) { m.ResourceVersion, m.Labels = "2", map[string]string{"x": "y"} }, false},
		"a resync": {func(*metav1.PartialObjectMetadata) {}, true},
		"spec":     {func(m *metav1.PartialObjectMetadata) { m.ResourceVersion, m.Generation = "2", 2 }, true},
		"deletion": {func(m *metav1.PartialObjectMetadata) { m.ResourceVersion, m.DeletionTimestamp = "2", &now }, true},
		"annotation": {func(m *metav1.PartialObjectMetadata) {
			m.ResourceVersion, m.Annotations = "2", map[string]string{"a": "c"}
		}, true},
		"annotation gone": {func(m *metav1.PartialObjectMetadata) { m.ResourceVersion, m.Annotations = "2", nil }, true},
		"owner gone":      {func(m *metav1.PartialObjectMetadata) { m.ResourceVersion, m.OwnerReferences = "2", nil }, true},
		"finalizer gone":  {func(m *metav1.PartialObjectMetadata) { m.ResourceVersion, m.Finalizers = "2", nil }, true},
		"finalizer added": {func(m *metav1.PartialObjectMetadata) {
			m.ResourceVersion = "2"
			m.Finalizers = append(m.Finalizers, "g")
		}, true},
		"owner is another": {func(m *metav1.PartialObjectMetadata) { m.ResourceVersion = "2"; m.OwnerReferences[0].UID = "v" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			is := base()
			tt.change(is)
			require.Equal(t, tt.want, passes(Options{}.changed(), base(), is))
		})
	}
	require.True(t, Options{}.changed().Create(event.TypedCreateEvent[*metav1.PartialObjectMetadata]{Object: base()}))
	require.True(t, Options{}.changed().Delete(event.TypedDeleteEvent[*metav1.PartialObjectMetadata]{Object: base()}))
}

func jobWith(change func(*batchv1.Job)) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "m-create-1"}}
	if change != nil {
		change(job)
	}
	return job
}

func TestJobTurns_areItsEnds(t *testing.T) {
	ended := func(kind batchv1.JobConditionType, status corev1.ConditionStatus) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: status}} }
	}
	now := metav1.Now()
	o := Options{Clock: clocktesting.NewFakePassiveClock(now.Time)}
	made := func(before time.Duration) *batchv1.Job {
		return jobWith(func(j *batchv1.Job) { j.CreationTimestamp = metav1.NewTime(now.Add(-before)) })
	}
	active := func(j *batchv1.Job) *batchv1.Job {
		j.Status.Active = 1
		return j
	}
	require.False(t, passes(o.jobChanges(), made(19*time.Second), active(made(19*time.Second))))
	require.True(t, passes(o.jobChanges(), made(20*time.Second), active(made(20*time.Second))), "the machine reports PodNotCreated")
	require.False(t, passes(o.jobChanges(), active(made(time.Minute)), active(made(time.Minute))))
	for name, tt := range map[string]struct {
		is   func(*batchv1.Job)
		want bool
	}{
		"a pod is ready":      {func(j *batchv1.Job) { j.Status.Ready = new(int32(1)) }, false},
		"it is about to fail": {ended(batchv1.JobFailureTarget, corev1.ConditionTrue), false},
		"not complete":        {ended(batchv1.JobComplete, corev1.ConditionFalse), false},
		"complete":            {ended(batchv1.JobComplete, corev1.ConditionTrue), true},
		"failed":              {ended(batchv1.JobFailed, corev1.ConditionTrue), true},
		"being deleted":       {func(j *batchv1.Job) { j.DeletionTimestamp = &now }, true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, passes(o.jobChanges(), jobWith(nil), jobWith(tt.is))) })
	}
	require.True(t, o.jobChanges().Delete(event.TypedDeleteEvent[*batchv1.Job]{Object: jobWith(nil)}))
}

func TestDeletionChanges(t *testing.T) {
	deleting := func(reason string, hooks ...string) *clusterv1.Machine {
		m := &clusterv1.Machine{}
		for _, hook := range hooks {
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, hook, "")
		}
		m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineDeletingCondition, Reason: reason}}
		return m
	}
	preDrain, preTerminate := clusterv1.PreDrainDeleteHookAnnotationPrefix+"/a", clusterv1.PreTerminateDeleteHookAnnotationPrefix+"/b"
	draining, due := clusterv1.MachineDeletingDrainingNodeReason, clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason
	for name, tt := range map[string]struct {
		was, is *clusterv1.Machine
		want    bool
	}{
		"one hook goes":         {deleting(draining, preDrain, preTerminate), deleting(draining, preTerminate), true},
		"the last hook goes":    {deleting(draining, preTerminate), deleting(draining), true},
		"the Node is drained":   {deleting(draining), deleting(due), true},
		"an annotation goes":    {deleting(draining, "a"), deleting(draining), false},
		"the volumes come next": {deleting(draining), deleting(clusterv1.MachineDeletingWaitingForVolumeDetachReason), false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, passes(deletionChanges(), tt.was, tt.is)) })
	}
}

func podWith(changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{rkev1.MachineUIDLabel: "uid-1"}}}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func waits(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
}

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase, p.Status.ContainerStatuses = phase, nil }
}

func unscheduled(message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}}
	}
}

func TestPodTurns_areWhatHoldsAPodUpAndItsEnd(t *testing.T) {
	now := metav1.Now()
	for name, tt := range map[string]struct {
		was, is func(*corev1.Pod)
		want    bool
	}{
		"scheduled":                   {inPhase(corev1.PodPending), func(p *corev1.Pod) { p.Spec.NodeName = "n" }, false},
		"its container is made":       {inPhase(corev1.PodPending), waits("ContainerCreating", ""), false},
		"it runs":                     {waits("ContainerCreating", ""), inPhase(corev1.PodRunning), false},
		"it is told to end":           {inPhase(corev1.PodRunning), func(p *corev1.Pod) { p.Status.Phase, p.DeletionTimestamp = corev1.PodRunning, &now }, false},
		"no room":                     {inPhase(corev1.PodPending), unscheduled("0/3 nodes"), true},
		"still no room, other words":  {unscheduled("0/3 nodes"), unscheduled("0/4 nodes"), true},
		"the same words":              {unscheduled("0/3 nodes"), unscheduled("0/3 nodes"), false},
		"no image":                    {waits("ContainerCreating", ""), waits("ErrImagePull", "not found"), true},
		"no image, tried more slowly": {waits("ErrImagePull", "not found"), waits("ImagePullBackOff", "not found"), true},
		"the image is there":          {waits("ErrImagePull", "not found"), inPhase(corev1.PodRunning), true},
		"succeeded":                   {inPhase(corev1.PodRunning), inPhase(corev1.PodSucceeded), true},
		"failed":                      {inPhase(corev1.PodRunning), inPhase(corev1.PodFailed), true},
		"failed without a start":      {waits("ErrImagePull", "not found"), inPhase(corev1.PodFailed), true},
		"ended, other words":          {inPhase(corev1.PodFailed), func(p *corev1.Pod) { p.Status.Phase, p.Status.Message = corev1.PodFailed, "x" }, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, passes(podChanges(), podWith(tt.was), podWith(tt.is))) })
	}
	created := func(p *corev1.Pod) bool { return podChanges().Create(event.TypedCreateEvent[*corev1.Pod]{Object: p}) }
	require.False(t, created(podWith()), "a new pod says nothing yet")
	require.True(t, created(podWith(unscheduled("0/3 nodes"))), "seen first after a restart of the manager")
	require.True(t, podChanges().Delete(event.TypedDeleteEvent[*corev1.Pod]{Object: podWith()}), "who waits for its end waits no more")
}

func TestClusterTurns(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*clusterv1.Cluster)
		want   bool
	}{
		"phase":                       {func(c *clusterv1.Cluster) { c.Status.Phase = "Provisioning" }, false},
		"its control plane":           {func(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = new(true) }, false},
		"labels":                      {func(c *clusterv1.Cluster) { c.Labels = map[string]string{"a": "b"} }, false},
		"paused":                      {func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }, true},
		"annotated":                   {func(c *clusterv1.Cluster) { c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} }, true},
		"infrastructure":              {func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = new(true) }, true},
		"infrastructure is not there": {func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = new(false) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			is := &clusterv1.Cluster{}
			tt.change(is)
			require.Equal(t, tt.want, passes(clusterChanges(), &clusterv1.Cluster{}, is))
		})
	}
}

func TestOfMachine_onlyItsController(t *testing.T) {
	yes, no := true, false
	want := []Request{requestFor("m")}
	for name, tt := range map[string]struct {
		owner metav1.OwnerReference
		want  []Request
	}{
		"a machine":             {metav1.OwnerReference{APIVersion: "rke-machine.cattle.io/v1", Kind: "AcmeMachine", Name: "m", Controller: &yes}, want},
		"in another version":    {metav1.OwnerReference{APIVersion: "rke-machine.cattle.io/v1beta1", Kind: "AcmeMachine", Name: "m", Controller: &yes}, want},
		"not its controller":    {metav1.OwnerReference{APIVersion: "rke-machine.cattle.io/v1", Kind: "AcmeMachine", Name: "m", Controller: &no}, nil},
		"controlled by nobody":  {metav1.OwnerReference{APIVersion: "rke-machine.cattle.io/v1", Kind: "AcmeMachine", Name: "m"}, nil},
		"a CAPI Machine":        {metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: "m", Controller: &yes}, nil},
		"a version that is odd": {metav1.OwnerReference{APIVersion: "a/b/c", Kind: "AcmeMachine", Name: "m", Controller: &yes}, nil},
		"nobody":                {},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &metav1.ObjectMeta{Namespace: "a", Name: "child", OwnerReferences: []metav1.OwnerReference{tt.owner}}
			require.Equal(t, tt.want, ofMachine(obj))
		})
	}
	require.Nil(t, ofMachine(&metav1.ObjectMeta{}))
}

func TestOfCAPIMachine_onlyOurInfrastructure(t *testing.T) {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "owner"}}
	require.Nil(t, ofCAPIMachine(t.Context(), m))
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "DOMachine", Name: "m"}
	require.Nil(t, ofCAPIMachine(t.Context(), m), "another provider's")
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "rke-machine.cattle.io", Kind: "AcmeMachine", Name: "m"}
	require.Equal(t, []Request{requestFor("m")}, ofCAPIMachine(t.Context(), m))
}

// Each object wakes those who noted that they wait for it, and nobody else.
func TestMappings_wakeThoseWhoWait(t *testing.T) {
	c := New(Options{})
	secret := metadataOf(corev1.SchemeGroupVersion.WithKind("Secret"))
	secret.SetNamespace("b")
	secret.SetName("cloud")
	job := jobWith(func(j *batchv1.Job) { j.Namespace = "drover-drivers" })
	renamed := &managementv3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: managementv3.NodeDriverSpec{DisplayName: "acme"}}
	looks := map[string]struct {
		note watchKey
		of   func(context.Context) []Request
	}{
		"a credential": {watchKey{kind: "Secret", name: types.NamespacedName{Namespace: "b", Name: "cloud"}}, func(ctx context.Context) []Request { return c.ofSecret(ctx, secret) }},
		"a Job in the fallback": {watchKey{kind: "Job", name: types.NamespacedName{Namespace: "drover-drivers", Name: "m-create-1"}},
			func(ctx context.Context) []Request { return c.ofJob(ctx, job) }},
		"a pod":                    {watchKey{kind: "Pod", uid: "uid-1"}, func(ctx context.Context) []Request { return c.ofPod(ctx, podWith()) }},
		"a driver by its own name": {watchKey{kind: "NodeDriver", name: types.NamespacedName{Name: "acme"}}, func(ctx context.Context) []Request { return c.ofNodeDriver(ctx, renamed) }},
	}
	for name, look := range looks {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, look.of(t.Context()))
			c.watchIndex.note(requestFor("m"), look.note)
			require.Equal(t, []Request{requestFor("m")}, look.of(t.Context()))
			c.watchIndex.forget(requestFor("m"))
			require.Empty(t, look.of(t.Context()))
		})
	}
	c.watchIndex.note(requestFor("m"), watchKey{kind: "Pod"})
	require.Empty(t, c.ofPod(t.Context(), podWith()), "a machine without a UID is none")
}

// fakeNodes calls back when the test says so.
type fakeNodes struct {
	NodeFinder
	wake func(client.ObjectKey, types.UID)
}

func (f *fakeNodes) OnNode(wake func(client.ObjectKey, types.UID)) { f.wake = wake }

func TestNodes_wakeTheMachineOfTheNode(t *testing.T) {
	found := &fakeNodes{}
	c := New(Options{Nodes: found})
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[Request]())
	defer queue.ShutDown()
	require.NoError(t, c.calls().Start(t.Context(), queue))
	here, there := types.NamespacedName{Namespace: "a", Name: "c1"}, types.NamespacedName{Namespace: "a", Name: "c2"}
	wait := func(name string, cluster types.NamespacedName, uid types.UID) {
		c.watchIndex.note(requestFor(name), watchKey{kind: "Node", name: cluster, uid: uid})
		c.watchIndex.note(requestFor(name), watchKey{kind: "Node", name: cluster})
	}
	wait("one", here, "uid-1")
	wait("two", here, "uid-2")
	wait("far", there, "uid-3")
	drain := func() (woken []string) {
		for queue.Len() > 0 {
			request, _ := queue.Get()
			woken = append(woken, request.Name)
			queue.Done(request)
		}
		return woken
	}
	found.wake(here, "uid-2")
	require.Equal(t, []string{"two"}, drain())
	found.wake(there, "uid-2")
	require.Empty(t, drain(), "another cluster")
	found.wake(here, "")
	require.ElementsMatch(t, []string{"one", "two"}, drain(), "the way into the cluster opened")

	require.NoError(t, New(Options{}).calls().Start(t.Context(), queue), "without a finder there is nothing to hear")
}

func TestOfDrivers_andWhatIsAKind(t *testing.T) {
	crd := func(group, kind, label string) *apiextensionsv1.CustomResourceDefinition {
		c := &apiextensionsv1.CustomResourceDefinition{}
		c.Spec.Group, c.Spec.Names.Kind = group, kind
		if label != "" {
			c.Labels = map[string]string{rkev1.NodeDriverLabel: label}
		}
		return c
	}
	for name, tt := range map[string]struct {
		crd  *apiextensionsv1.CustomResourceDefinition
		want bool
	}{
		"a machine":          {crd("rke-machine.cattle.io", "AcmeMachine", "acme"), true},
		"a template":         {crd("rke-machine.cattle.io", "AcmeMachineTemplate", "acme"), false},
		"a config":           {crd("rke-machine-config.cattle.io", "AcmeConfig", "acme"), false},
		"nobody's":           {crd("rke-machine.cattle.io", "CustomMachine", ""), false},
		"of another group":   {crd("example.org", "AcmeMachine", "acme"), false},
		"no group, no names": {crd("", "", ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, isMachineCRD(tt.crd))
			meta := &metav1.PartialObjectMetadata{ObjectMeta: tt.crd.ObjectMeta}
			require.Equal(t, tt.crd.Labels != nil, ofDrivers().Create(event.TypedCreateEvent[*metav1.PartialObjectMetadata]{Object: meta}))
		})
	}
}

// A machine is heard of when it becomes this manager's and when it ends to be, for its place among those that wait is given up.
func TestWatches_ofThisManagersMachines(t *testing.T) {
	labelled := func(value string) *metav1.PartialObjectMetadata {
		m := metadataOf(rkev1.MachineGroupVersion.WithKind("AcmeMachine"))
		m.Generation, m.ResourceVersion, m.Labels = 1, value, map[string]string{clusterv1.WatchLabel: value}
		return m
	}
	o := Options{WatchFilter: "blue"}
	relabelled := predicate.And(o.watches(), o.changed())
	for name, tt := range map[string]struct {
		was, is string
		want    bool
	}{
		"made this manager's": {"green", "blue", true},
		"given away":          {"blue", "green", true},
		"another's":           {"green", "red", false},
		"a resync":            {"blue", "blue", true},
		"another's resync":    {"green", "green", false},
	} {
		require.Equal(t, tt.want, passes(relabelled, labelled(tt.was), labelled(tt.is)), name)
	}
	require.True(t, o.watches().Create(event.TypedCreateEvent[*metav1.PartialObjectMetadata]{Object: labelled("blue")}))
	require.False(t, o.watches().Create(event.TypedCreateEvent[*metav1.PartialObjectMetadata]{Object: labelled("green")}))
	require.True(t, Options{}.watches().Create(event.TypedCreateEvent[*metav1.PartialObjectMetadata]{Object: labelled("green")}))
}
