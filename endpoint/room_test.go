package endpoint

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A room that keeps refuses who has his part; another one gives his newest request the place of his oldest. Who has nothing yet always gets in.
func TestRoom(t *testing.T) {
	for name, c := range map[string]struct {
		keeps         bool
		asks          []string
		ended, denied []int
	}{
		"keeps: the third of one is refused":            {true, []string{"a", "a", "a", "b"}, nil, []int{2}},
		"keeps: who has least takes of who has most":    {true, []string{"a", "a", "b", "b", "c"}, []int{0}, nil},
		"keeps: who has most gets no more":              {true, []string{"a", "b", "c", "d", "a"}, nil, []int{4}},
		"gives up: the third of one ends his first":     {false, []string{"a", "a", "a", "b"}, []int{0}, nil},
		"gives up: who has least takes of who has most": {false, []string{"a", "a", "b", "b", "c"}, []int{0}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			room := NewRoom(RoomOptions{Port: "test", What: "requests", All: 4, Each: 2, Keeps: c.keeps})
			var ended, denied []int
			var places []*Place
			for i, who := range c.asks {
				place := room.Enter(who, func() { ended = append(ended, i) })
				if place == nil {
					denied = append(denied, i)
					continue
				}
				places = append(places, place)
			}
			require.Equal(t, c.ended, ended)
			require.Equal(t, c.denied, denied)
			for _, place := range places {
				place.Leave()
			}
			require.Empty(t, room.shares.peers)
		})
	}
}
