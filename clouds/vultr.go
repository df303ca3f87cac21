package clouds

var _ = add(Cloud{
	Driver: "vultr", ID: "InstanceID", ProviderID: "vultr://{InstanceID}",
	// Vultr documents no limits of its tags.
	Tags:   TagFlag{Flag: "vultr-tags", Form: WordList, Characters: ":_-", MaxKey: 255},
	Finder: Finder{Kind: ByTag, Needs: []string{"vultr-api-key", "vultr-tags"}}, Lists: true,
})
