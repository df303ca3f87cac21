package clouds

// opentelekomcloud/docker-machine-opentelekomcloud v2, which was read in part; its predecessor is the driver otc. The file is read
// when the driver gets its flags.
var _ = add(Cloud{
	Driver: "opentelekomcloud",
	UserData: UserData{Habit: PathEarly, Flag: "opentelekomcloud-user-data-file", Excludes: []string{"opentelekomcloud-user-data-raw"},
		Limit: Limit{Bytes: 32 << 10}},
})
