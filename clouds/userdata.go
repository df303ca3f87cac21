package clouds

import "encoding/base64"

// UserData is how a driver takes user data.
type UserData struct {
	// Habit is the form of Flag's value.
	Habit Habit
	// Flag takes the user data.
	Flag string
	// With are switches and their required values, "true" or "false", so that Flag has the meaning
	// of Habit.
	With map[string]string
	// Excludes are flags that may not be given beside Flag.
	Excludes []string
	// Merges are further flags with the user's own user data, which the driver joins with Flag's.
	Merges []string
	// Unless are flags and their values with which the driver does not pass user data on.
	Unless map[string]string
	// Limit is the cloud's limit.
	Limit Limit
	// CloudConfigOnly is true if the driver rewrites the data and understands only #cloud-config.
	CloudConfigOnly bool
	// Breaks are texts that the driver replaces in the data: data with one of them would arrive
	// changed.
	Breaks []string
}

// Habit describes how a driver uses the value of its flag for user data.
type Habit string

// Habits of drivers.
const (
	// Unknown: no description exists.
	Unknown Habit = ""
	// None: the driver has no flag for user data, so that a server is set up over SSH.
	None Habit = "none"
	// Inline: the value is the user data.
	Inline Habit = "inline"
	// Base64: the value is the user data in base64.
	Base64 Habit = "base64"
	// PathAtCreate: the value is the path of a file, which the driver reads while it creates the
	// server.
	PathAtCreate Habit = "path, read at create"
	// PathEarly: the value is the path of a file, which the driver reads when it gets or checks its
	// flags.
	PathEarly Habit = "path, read early"
)

// Limit of the user data that a cloud takes.
type Limit struct {
	// Bytes is the largest size, measured as the cloud does; 0 means that only Drover's limit
	// applies.
	Bytes int
	// Base64 is true if the cloud measures the base64 form.
	Base64 bool
	// Gzip is true if the driver passes bytes on unchanged and cloud-init unzips them at this
	// cloud.
	Gzip bool
}

// Measure returns the size of user data as the cloud counts it.
func (l Limit) Measure(data []byte) int {
	if l.Base64 {
		return base64.StdEncoding.EncodedLen(len(data))
	}
	return len(data)
}
