package clouds

var _ = add(
	Cloud{Driver: "none", NoServer: true, UserData: UserData{Habit: None}, NodeDriver: &NodeDriver{Description: "Makes nothing; for tests."}},
	Cloud{Driver: "noop", NoServer: true, UserData: UserData{Habit: None}, NodeDriver: &NodeDriver{Description: "Makes nothing; for tests."}},
)
