package facts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// nodeDriver is a driver with the name of the object, the driver's own, and the kind it serves.
func nodeDriver(name, displayName, kind string) v3.NodeDriver {
	return v3.NodeDriver{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v3.NodeDriverSpec{DisplayName: displayName}, Status: v3.NodeDriverStatus{MachineKind: kind},
	}
}

func TestDriverName(t *testing.T) {
	drivers := []v3.NodeDriver{nodeDriver("nd-x", "my-cloud", "MycloudMachine"), nodeDriver("pending", "", "")}
	require.Equal(t, "my-cloud", facts.DriverName("MycloudMachine", drivers))
	require.Equal(t, "digitalocean", facts.DriverName("DigitaloceanMachine", drivers))
	require.Equal(t, "mycloud", facts.DriverName("MycloudMachine", nil), "who may not read NodeDrivers sees the kind's name")
	require.Empty(t, facts.DriverName("", drivers), "no kind is not the kind of a driver that has none yet")
}

func TestDriverOf(t *testing.T) {
	drivers := []v3.NodeDriver{nodeDriver("pending", "", ""), nodeDriver("nd-x", "my-cloud", "MycloudMachine")}
	require.Same(t, &drivers[1], facts.DriverOf("MycloudMachine", drivers))
	require.Nil(t, facts.DriverOf("", drivers))
	require.Nil(t, facts.DriverOf("OtherMachine", drivers))
}

func TestDriverNamed(t *testing.T) {
	drivers := []v3.NodeDriver{
		nodeDriver("nd-old", "my-cloud", ""),
		nodeDriver("nd-new", "my-cloud", "MycloudMachine"),
		nodeDriver("nd-third", "my-cloud", "MycloudMachine"),
		nodeDriver("digitalocean", "", "DigitaloceanMachine"),
		nodeDriver("nd-clash", "nd-old", ""),
	}
	for name, want := range map[string]string{
		"nd-old":       "nd-old", // the object before the driver that calls itself so
		"my-cloud":     "nd-new", // the one that has the kinds
		"My-Cloud":     "nd-new",
		"digitalocean": "digitalocean",
		"DigitalOcean": "digitalocean",
	} {
		require.Equal(t, want, facts.DriverNamed(name, drivers).Name, name)
	}
	for _, name := range []string{"", "cloud", "MycloudMachine"} {
		require.Nil(t, facts.DriverNamed(name, drivers), name)
	}
}
