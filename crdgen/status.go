package crdgen

// maxStatusText bounds free text in a status; controllers cut earlier.
const maxStatusText = 32 << 10

// machineStatus is RKEMachineStatus of api/rke/v1; a test keeps the two alike.
func machineStatus() schemaProps {
	observed := formatted("integer", "int64", "ObservedGeneration is the generation the condition is about.")
	observed.Minimum = new(float64(0))
	condition := object("A condition of the machine.", map[string]schemaProps{
		"type":               text("Type of the condition.", 316),
		"status":             oneOf(text("Status is True, False or Unknown.", 16), "True", "False", "Unknown"),
		"reason":             text("Reason is one CamelCase word.", 1024),
		"message":            text("Message explains the state, its cause and the next step.", 32768),
		"lastTransitionTime": formatted("string", "date-time", "LastTransitionTime is when the status changed last."),
		"observedGeneration": observed,
	}, "lastTransitionTime", "message", "reason", "status", "type")
	// Conditions of objects exported from Rancher also have a lastUpdateTime, which is accepted.
	condition.XPreserveUnknownFields = new(true)
	initialization := object("Initialization is what Cluster API waits for.", map[string]schemaProps{
		"provisioned": {Type: "boolean", Description: "Provisioned is true once the server is there and spec.providerID is known; it never goes back."},
	})
	initialization.MinProperties = new(int64(1))
	return object("Status is the observed state of the machine.", map[string]schemaProps{
		"conditions":                list("Conditions, one per step of the machine's life.", "map", condition, "type"),
		"jobName":                   text("JobName is the Job that runs, or ran last.", 253),
		"ready":                     {Type: "boolean", Description: "Ready is what Cluster API read before its v1beta2 contract."},
		"driverHash":                text("DriverHash is the checksum of the driver the machine was made with.", 128),
		"driverUrl":                 text("DriverURL is where that driver came from.", 2048),
		"cloudCredentialSecretName": text("CloudCredentialSecretName is the credential that made the server.", maxCommonNameLength),
		"failureReason":             text("FailureReason is CreateError or DeleteError when the last operation failed.", 1024),
		"failureMessage":            text("FailureMessage says why creating or deleting failed last.", maxStatusText),
		"addresses": list("Addresses of the server.", "atomic", object("An address of the server.", map[string]schemaProps{
			"type":    text("Type is Hostname, ExternalIP, InternalIP, ExternalDNS or InternalDNS.", 32),
			"address": text("Address itself.", 256),
		}, "address", "type")),
		"failureDomain":      text("FailureDomain is the zone or region where the server is.", 256),
		"initialization":     initialization,
		"observedGeneration": formatted("integer", "int64", "ObservedGeneration is the generation this status is about."),
		"phase":              text("Phase is one word for people: Pending, Creating, Running, Failed, Deleting. Conditions tell more.", 32),
		"instanceName":       text("InstanceName is the server's name at the cloud.", 253),
		"attempts":           formatted("integer", "int32", "Attempts counts the Jobs run for the present operation."),
		"lastAttempt": object("LastAttempt is how the last Job ended.", map[string]schemaProps{
			"operation": text("Operation is create or remove.", 32),
			"number":    formatted("integer", "int32", "Number counts from 1."),
			"startTime": formatted("string", "date-time", "StartTime is when the Job started."),
			"endTime":   formatted("string", "date-time", "EndTime is when the Job ended."),
			"outcome":   text("Outcome is Succeeded, Failed or Cancelled.", 32),
			"class":     text("Class of the failure: Invalid, Unauthorized, Quota, Capacity, Throttled, Transient, Unknown.", 32),
			"message":   text("Message is the driver's own error, redacted.", maxStatusText),
			"logTail":   text("LogTail is the end of the driver's log, redacted; the state Secret keeps more.", maxStatusText),
		}, "number", "operation", "outcome"),
		"nextAttemptTime": formatted("string", "date-time", "NextAttemptTime is when the next Job may start after a failure."),
		"heldBy":          text("HeldBy is the machine of this namespace that the cloud refused, while this one waits for its turn to ask for the same.", 253),
	})
}
