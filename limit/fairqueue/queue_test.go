package fairqueue

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func item(namespace string, number int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(number)}}
}

// Two with five hundred objects each that take a second hold up nobody else where a worker is left, and all of theirs are worked on.
func TestQueue_isShared(t *testing.T) {
	for workers, most := range map[int]time.Duration{1: 5 * time.Second, 4: time.Second, 10: 0} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New(workers)("", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
				for i := range 500 {
					q.Add(item("loud-1", i))
					q.Add(item("loud-2", i))
				}
				ended := make(chan reconcile.Request, 1002)
				for range workers {
					go func() {
						for {
							got, shutdown := q.Get()
							if shutdown {
								return
							}
							if got.Namespace != "quiet" {
								time.Sleep(time.Second)
							}
							ended <- got
							q.Done(got)
						}
					}()
				}
				time.Sleep(10*time.Second + time.Millisecond)
				q.Add(item("quiet", 1))
				q.AddAfter(item("quiet", 2), time.Millisecond)
				begun, seen := time.Now(), map[reconcile.Request]int{}
				for len(seen) < 1002 {
					got := <-ended
					seen[got]++
					if got.Namespace == "quiet" {
						require.LessOrEqual(t, time.Since(begun), most+time.Millisecond, "it waits for one object of each of the others at most")
					}
				}
				for got, times := range seen {
					require.Equal(t, 1, times, got)
				}
				q.Add(item("loud-1", 1))
				require.Equal(t, item("loud-1", 1), <-ended, "what was done can be wanted again")
				q.ShutDown()
			})
		})
	}
}

// What is wanted again while it is worked on comes after all that wait: what happens to it until then is looked at once.
func TestQueue_wantedAgain(t *testing.T) {
	for _, workers := range []int{1, 2, 10} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New(workers)("", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
				const objects = 40
				for i := range objects {
					q.Add(item("loud", i))
				}
				var mu sync.Mutex
				var order []int
				for range workers {
					go func() {
						for got, shutdown := q.Get(); !shutdown; got, shutdown = q.Get() {
							var number int
							_, _ = fmt.Sscan(got.Name, &number)
							mu.Lock()
							order = append(order, number)
							again := len(order) <= objects
							mu.Unlock()
							time.Sleep(time.Second)
							if again {
								q.Add(got)
								q.Add(got)
							}
							q.Done(got)
						}
					}()
				}
				time.Sleep(time.Hour)
				require.Len(t, order, 2*objects)
				first := slices.Sorted(slices.Values(order[:objects]))
				require.Equal(t, objects, len(slices.Compact(first)), "each comes once before one comes again: %v", order)
				q.ShutDown()
			})
		})
	}
}

// Each controller has such a queue, but for those of kinds that no tenant makes, and for the one whose workers have shares of their own.
func TestQueue_ofEveryController(t *testing.T) {
	const root = "../.."
	without := []string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if hidden := strings.HasPrefix(entry.Name(), ".") && path != root; hidden && entry.IsDir() {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(content)) {
			if strings.Contains(line, "MaxConcurrentReconciles:") && !strings.Contains(line, "NewQueue:") {
				without = append(without, filepath.ToSlash(filepath.Dir(path)))
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"../../controllers/nodedriver", "../../capi/workload"}, without)
}
