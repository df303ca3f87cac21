package plan

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// maxOutputBytes bounds saved output after it is unzipped.
const maxOutputBytes = 16 << 20

// ProbeStatus is the state of a probe.
type ProbeStatus struct {
	Healthy      bool `json:"healthy,omitempty"`
	SuccessCount int  `json:"successCount,omitempty"`
	FailureCount int  `json:"failureCount,omitempty"`
}

// PeriodicOutput is the result of the last run of a periodic instruction.
type PeriodicOutput struct {
	Name     string `json:"name"`
	Stdout   []byte `json:"stdout"`
	Stderr   []byte `json:"stderr"`
	ExitCode int    `json:"exitCode"`
	// LastSuccessfulRunTime and LastFailedRunTime are in the form of time.UnixDate, or empty.
	LastSuccessfulRunTime string `json:"lastSuccessfulRunTime"`
	// Failures in a row.
	Failures          int    `json:"failures"`
	LastFailedRunTime string `json:"lastFailedRunTime"`
}

// AgentStatus is the agent's own state and its last attempt, in words. It has no field that changes
// with time alone, so it is written only if the state or the attempt changes.
type AgentStatus struct {
	// Version of the agent, and Platform such as linux/amd64.
	Version  string `json:"version,omitempty"`
	Platform string `json:"platform,omitempty"`
	// CAChecksum is the sha256, in hex, of the certificates (PEM) by which the agent knows the
	// endpoint: so a next authority is acknowledged.
	CAChecksum string `json:"caChecksum,omitempty"`
	// Checksum and Attempt identify the plan and the attempt of Message.
	Checksum string `json:"checksum,omitempty"`
	Attempt  int    `json:"attempt,omitempty"`
	// Step is where the last attempt failed, such as "file /etc/x" or "instruction install"; empty
	// when it did not.
	Step string `json:"step,omitempty"`
	// Message says why, in the agent's words; without a Step, why the agent cannot go on with the
	// plan. No output of the instruction is in it.
	Message string `json:"message,omitempty"`
	// Output is the end of the failed instruction's output. It may contain secrets: show it in logs
	// only, never in conditions.
	Output string `json:"output,omitempty"`
	// Running is an instruction that has been running for long, and since when; empty otherwise.
	Running string `json:"running,omitempty"`
	// RetryAt is when the next attempt starts (RFC 3339); empty if none is planned.
	RetryAt string `json:"retryAt,omitempty"`
	// Proxy is a proxy of the agent's environment that does not answer, without its credentials,
	// and the reason. The agent then calls the manager without it. Empty otherwise.
	Proxy string `json:"proxy,omitempty"`
	// Addresses are the server's own addresses, without loopback, link-local addresses and container
	// networks. Empty if they are not known.
	Addresses []string `json:"addresses,omitempty"`
	// Probes has why a probe that is not healthy is not.
	Probes map[string]string `json:"probes,omitempty"`
}

// Bounds of the texts of an AgentStatus.
const (
	MaxMessageBytes = 2 << 10
	MaxTailBytes    = 8 << 10
	MaxProxyBytes   = 512
	MaxAddresses    = 64
	maxStatusBytes  = 256 << 10
)

// Output is the output of instructions, by their names: the content of KeyAppliedOutput and
// KeyFailedOutput, or of KeyPeriodicOutput.
type Output interface {
	map[string][]byte | map[string]PeriodicOutput
}

// DecodeProbeStatuses reads the value of KeyProbeStatuses. An empty value has no statuses.
func DecodeProbeStatuses(raw []byte) (map[string]ProbeStatus, error) {
	var statuses map[string]ProbeStatus
	return statuses, unmarshal(raw, &statuses)
}

// DecodeAgentStatus reads the value of KeyAgentStatus and cuts its texts. No bytes are an empty one.
func DecodeAgentStatus(raw []byte) (AgentStatus, error) {
	var status AgentStatus
	err := unmarshal(raw, &status)
	status.Message, status.Output = Head(status.Message, MaxMessageBytes), Tail(status.Output, MaxTailBytes)
	status.Proxy = Head(status.Proxy, MaxProxyBytes)
	status.Addresses = status.Addresses[:min(len(status.Addresses), MaxAddresses)]
	return status, err
}

// FailedStep returns the step at which the last attempt at the plan failed, and the end of its
// output; both are empty if the agent reported none. An agent that is not ours reports the output
// that instructions save, and no status.
func FailedStep(data map[string][]byte) (step, output string, err error) {
	status, err := DecodeAgentStatus(data[KeyAgentStatus])
	if err != nil || status.Step != "" || status.Message != "" {
		return status.Step, status.Output, err
	}
	if string(data[KeyFailedChecksum]) != Checksum(data[KeyPlan]) {
		return "", "", nil
	}
	saved, err := DecodeOutput[map[string][]byte](data[KeyFailedOutput])
	for _, name := range slices.Sorted(maps.Keys(saved)) {
		// Instructions run in the plan's order; our plans have one.
		step, output = "instruction "+Head(name, 200), Tail(strings.ToValidUTF8(string(saved[name]), ""), MaxTailBytes)
	}
	return step, output, err
}

func unmarshal(raw []byte, into any) error {
	if len(raw) == 0 {
		return nil
	}
	if len(raw) > maxStatusBytes {
		return fmt.Errorf("decoding a status of %d bytes: at most %d are read", len(raw), maxStatusBytes)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("decoding a status: %w", err)
	}
	return nil
}

// Head is the beginning of a text, and Tail its end, of at most so many bytes; neither cuts a
// character.
func Head(text string, limit int) string {
	for cut, r := range text {
		if cut+len(string(r)) > limit {
			return text[:cut]
		}
	}
	return text
}

// Tail is the end of a text, of at most so many bytes.
func Tail(text string, limit int) string {
	for cut := range text {
		if len(text)-cut <= limit {
			return text[cut:]
		}
	}
	return ""
}

// EncodeOutput makes the value of a key. The same output makes the same bytes.
func EncodeOutput[T Output](output T) ([]byte, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if err := json.NewEncoder(zip).Encode(output); err != nil {
		return nil, fmt.Errorf("encoding output: %w", err)
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("encoding output: %w", err)
	}
	return out.Bytes(), nil
}

// DecodeOutput reads the result of EncodeOutput. An empty value has no output.
func DecodeOutput[T Output](raw []byte) (T, error) {
	var output T
	if len(raw) == 0 {
		return output, nil
	}
	zip, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return output, fmt.Errorf("unzipping output: %w", err)
	}
	content, err := io.ReadAll(io.LimitReader(zip, maxOutputBytes+1))
	if err != nil {
		return output, fmt.Errorf("unzipping output: %w", err)
	}
	if len(content) > maxOutputBytes {
		return output, fmt.Errorf("unzipping output: it is more than %d bytes", maxOutputBytes)
	}
	if err := json.Unmarshal(content, &output); err != nil {
		return output, fmt.Errorf("decoding output: %w", err)
	}
	return output, nil
}
