package controlplane

// MembersWith and ExplainAdd are under test from outside.
var (
	MembersWith = membersWith
	ExplainAdd  = explainAdd
)
