package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation/finder"
	"github.com/drover-project/drover/state"
)

const (
	listTimeout = 10 * time.Minute
	// oneTimeout bounds the removal of one server, so that it takes no time from the others.
	oneTimeout = 5 * time.Minute

	reasonTooLate = "JudgementTooOld"
)

// scan lists the servers that carry Drover's tags, and then removes the requested ones if they are
// unchanged. It cannot know which servers are orphans: that needs the API, which the manager reads.
func (s *session) scan(ctx context.Context) error {
	lister, err := s.lister()
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, listTimeout, fmt.Errorf("the cloud did not list its servers within %s", listTimeout))
	defer cancel()
	found, err := lister.List(bounded)
	if err != nil {
		return s.driverFailure(rkev1.LookupFailedReason, err)
	}
	s.log.printf("servers with Drover's tags: %d", len(found))
	s.result.Scan = &state.ScanReport{Servers: make([]state.ScannedServer, 0, len(found)), Within: lister.Within(bounded)}
	for _, server := range found {
		s.result.Scan.Servers = append(s.result.Scan.Servers, state.ScannedServer{
			ID: server.ID, Name: server.Name, ProviderID: s.serverOf(server).ProviderID, Created: server.Created,
			MachineUID: server.Tags[jobrunner.TagMachineUID], Machine: server.Tags[jobrunner.TagMachine],
			ClusterUID: server.Tags[jobrunner.TagClusterUID], Cluster: server.Tags[jobrunner.TagCluster], Management: server.Tags[jobrunner.TagManagement],
		})
	}
	// A server that cannot be removed does not stop the others. The loop ends if the pod is
	// stopped, or if the manager read the API too long ago.
	var errs []error
	for i, target := range s.request.Scan {
		if now := time.Now(); now.After(s.request.ScanNotAfter) {
			errs = append(errs, failf(reasonTooLate, rkev1.ClassTransient, "it is %s, and the list of orphans was valid only until %s. Servers left: %d; scan again",
				now.UTC().Format(time.RFC3339), s.request.ScanNotAfter.UTC().Format(time.RFC3339), len(s.request.Scan)-i))
			break
		}
		err := s.removeScanned(ctx, lister, found, target)
		if cancelled(err) {
			return err
		}
		if err != nil {
			s.log.printf("%v", err)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// lister needs no driver process: the flags of built-in drivers are known, and of others those that
// their finders need.
func (s *session) lister() (*finder.ByTag, error) {
	name := s.request.Driver.Name
	flags, known := driver.Builtin(name)
	if !known {
		flags = finder.ExternalFlags(name)
	}
	if len(flags) == 0 || !clouds.Of(name).Lists {
		return nil, failf(rkev1.RequestInvalidReason, rkev1.ClassInvalid, "servers of driver %s cannot be listed by their tags", name)
	}
	values, err := s.valuesOf(flags, true)
	if err != nil {
		return nil, err
	}
	return finder.ListerFor(name, values), nil
}

// serverOf returns the facts in a server's record, in the form of the driver's record. A record
// that cannot be read adds nothing.
func (s *session) serverOf(server finder.Server) state.Server {
	var record clouds.Record
	if raw, err := json.Marshal(server.Record); err == nil {
		record, _ = clouds.DecodeRecord(raw)
	}
	return s.profile.Server(clouds.Facts{Record: record, Hostname: server.Name})
}

// removeScanned removes a server that was just listed with the expected tag. A server without it is
// gone or belongs to another machine. If several match, it removes none.
func (s *session) removeScanned(ctx context.Context, lister *finder.ByTag, found []finder.Server, target jobrunner.ScanTarget) error {
	if target.Beside != "" && !slices.ContainsFunc(found, func(server finder.Server) bool {
		return server.ID == target.Beside && server.Tags[jobrunner.TagMachineUID] == target.MachineUID
	}) {
		s.note("server %s stays: its machine's recorded server %s is not listed any more", target.ID, target.Beside)
		return nil
	}
	meant := slices.DeleteFunc(slices.Clone(found), func(server finder.Server) bool {
		return server.ID != target.ID && (target.Beside != "" || server.Tags[jobrunner.TagMachineUID] != target.MachineUID)
	})
	switch {
	case len(meant) > 1:
		s.note("server %s is not the only one with its ID or with the tag of machine %s", target.ID, target.MachineUID)
		return nil
	case len(meant) == 0 || meant[0].ID != target.ID || meant[0].Tags[jobrunner.TagMachineUID] != target.MachineUID || target.MachineUID == "":
		s.note("server %s with the tag of machine %s no longer exists", target.ID, target.MachineUID)
		return nil
	}
	s.log.printf("removing server %s (%s), which machine %s does not have", target.ID, meant[0].Name, target.MachineUID)
	bounded, cancel := context.WithTimeoutCause(ctx, oneTimeout, fmt.Errorf("the cloud did not remove it within %s", oneTimeout))
	defer cancel()
	if err := lister.Remove(bounded, meant[0]); err != nil {
		return s.driverFailure(rkev1.RemoveFailedReason, fmt.Errorf("%s: %w", meant[0].Name, err))
	}
	s.result.Scan.Removed = append(s.result.Scan.Removed, target.ID)
	return nil
}
