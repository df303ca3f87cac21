package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// AliyunContainerService/docker-machine-driver-aliyunecs, aliyunecs/ecs.go; errors:
// denverdino/aliyungo, common/request.go. The record's Id is a random word and does not name a
// server.
var _ = add(Cloud{
	Driver: "aliyunecs", ID: "InstanceId", ProviderID: "{Region}.{InstanceId}", UserData: UserData{Habit: None},
	Tags:      TagFlag{Flag: "aliyunecs-tag", Form: List, Characters: " +-._:/@", MaxKey: 64, MaxValue: 128},
	KeyUnless: []string{"aliyunecs-ssh-keypair", "aliyunecs-ssh-keypath"},
	Beside:    "its elastic IP address and route entry",
	Leftovers: "The driver leaves its security group.",
	words: words{rules: []rule{
		{rkev1.ClassUnauthorized, []string{"invalidaccesskeyid", "signaturedoesnotmatch", "forbidden.ram", "unauthorizedoperation"}},
		{rkev1.ClassThrottled, []string{"throttling"}},
		{rkev1.ClassQuota, []string{"quotaexceed", "instancenumberexceed"}},
		{rkev1.ClassCapacity, []string{"operationdenied.nostock", "nostock", "zone.notonsale", "resourcenotavailable"}},
		{rkev1.ClassTransient, []string{"serviceunavailable", "internalerror", "incorrectinstancestatus"}},
		{rkev1.ClassInvalid, []string{"invalidparameter", "missingparameter", "code: invalid"}},
	}},
})
