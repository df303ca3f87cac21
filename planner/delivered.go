package planner

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/drover-project/drover/api/plan"
)

// Delivered is what the planner has to know of a plan that was delivered. The plan itself, which may be a thousand times as large, need not be kept.
type Delivered struct {
	// Checksum is what agents call the plan. Major is the checksum without its minor files.
	Checksum string `json:"checksum"`
	Major    string `json:"major"`
	// Paths of its files that are no directories, those included that it deletes.
	Paths  []string `json:"paths,omitempty"`
	Probes []string `json:"probes,omitempty"`
	// Broken is why it cannot be read; empty otherwise.
	Broken string `json:"broken,omitempty"`
}

// maxPathBytes bounds the paths of a plan's files.
const maxPathBytes = 32 << 10

// NewDelivered looks into the plan of a plan Secret; nil when there is none. Somebody else may have written it.
func NewDelivered(raw []byte) *Delivered {
	if len(raw) == 0 {
		return nil
	}
	d, read := &Delivered{Checksum: plan.Checksum(raw)}, plan.Plan{}
	if err := json.Unmarshal(raw, &read); err != nil {
		d.Broken = plan.Head(err.Error(), 300)
		return d
	}
	if d.Probes = slices.Sorted(maps.Keys(read.Probes)); len(d.Probes) > plan.MaxProbes {
		return &Delivered{Checksum: d.Checksum, Broken: "it has too many probes"}
	}
	size := 0
	for _, file := range read.Files {
		if file.Directory {
			continue
		}
		if size += len(file.Path); size > maxPathBytes || len(d.Paths) >= plan.MaxFiles {
			return &Delivered{Checksum: d.Checksum, Broken: "it has too many files"}
		}
		d.Paths = append(d.Paths, file.Path)
	}
	d.Major = major(read)
	return d
}

// major is the checksum of a plan without its minor files: one that differs in those only needs no turn.
func major(p plan.Plan) string {
	p.Files = slices.DeleteFunc(slices.Clone(p.Files), func(f plan.File) bool { return f.Minor })
	raw, err := json.Marshal(p)
	if err != nil {
		return "" // texts and numbers are always encoded
	}
	return plan.Checksum(raw)
}
