package crdgen_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/testkit"
)

// hostileLists are what a driver's probe may bring back, and why it becomes no kind.
func hostileLists() map[string]struct{ list, err string } {
	named := func(name string) string {
		raw, _ := json.Marshal([]crdgen.Flag{{Name: name, Type: crdgen.String}})
		return string(raw)
	}
	flag := func(rest string) string { return `[{"name":"acme-x",` + rest + `}]` }
	many := strings.TrimSuffix(strings.Repeat(`{"name":"x","type":"bool"},`, 10_000), ",")
	const outside = `has a character outside A-Z a-z 0-9 . _ -`
	return map[string]struct{ list, err string }{
		"10,000 flags":          {"[" + many + "]", "the driver has 10000 flags, at most 1000 are accepted"},
		"a path":                {named("../x"), `flag 0: the name "../x" ` + outside},
		"a root":                {named("/etc/passwd"), `flag 0: the name "/etc/passwd" ` + outside},
		"a shell":               {named("x;reboot"), `flag 0: the name "x;reboot" ` + outside},
		"a variable":            {named("${jndi:x}"), `flag 0: the name "${jndi:x}" ` + outside},
		"a tag":                 {named("<script>"), `flag 0: the name "<script>" ` + outside},
		"a look-alike":          {named("tоken"), `flag 0: the name "tоken" ` + outside},
		"text that turns":       {named("a\u202eb"), `flag 0: the name "a\u202eb" ` + outside},
		"a colour":              {named("\x1b[31m"), `flag 0: the name "\x1b[31m" ` + outside},
		"a NUL":                 {named("a\x00b"), `flag 0: the name "a\x00b" ` + outside},
		"an assignment":         {named("a=b"), `flag 0: the name "a=b" ` + outside},
		"an option":             {named("-x"), `flag 0: the name "-x" begins with a dash`},
		"no name":               {named(""), "flag 0: the name is empty"},
		"a name that never end": {named(strings.Repeat("n", 1<<20)), "flag 0: the name has 1048576 bytes, at most 128 are accepted"},
		"two of one name":       {`[{"name":"a","type":"bool"},{"name":"b","type":"bool"},{"name":"a","type":"int"}]`, `flag 2: "a" is declared twice`},
		"a type of its own":     {flag(`"type":"file"`), `flag 0: acme-x: the default: the type "file" is not one of string, int, bool, stringSlice`},
		"a list as default":     {flag(`"type":"string","default":["a"]`), "flag 0: acme-x: the default: must be a string, is a list"},
		"a map as default":      {flag(`"type":"int","default":{}`), "flag 0: acme-x: the default: must be an integer, is a map"},
		"a word as boolean":     {flag(`"type":"bool","default":"false"`), "flag 0: acme-x: the default: must be true or false, is a string"},
		"a string as list":      {flag(`"type":"stringSlice","default":"a"`), "flag 0: acme-x: the default: must be a list of strings: not a list of strings but a string"},
		"numbers in the list":   {flag(`"type":"stringSlice","default":["a",1]`), "flag 0: acme-x: the default: must be a list of strings: item 1 is not a string but a number"},
		"a long list":           {flag(`"type":"stringSlice","default":[` + strings.TrimSuffix(strings.Repeat(`"",`, 257), ",") + `]`), "flag 0: acme-x: the default has 257 items, at most 256 are accepted"},
		"a long item":           {flag(`"type":"stringSlice","default":["` + strings.Repeat("i", 4097) + `"]`), "flag 0: acme-x: an item of the default has 4097 bytes, at most 4096 are accepted"},
		"a huge number":         {flag(`"type":"int","default":9223372036854775808`), "flag 0: acme-x: the default: must be an integer, is a number"},
		"a preload":             {flag(`"type":"string","envVar":"LD_PRELOAD=/x"`), `flag 0: acme-x: the environment variable "LD_PRELOAD=/x" is not a valid name`},
		"two words":             {flag(`"type":"string","envVar":"A B"`), `flag 0: acme-x: the environment variable "A B" is not a valid name`},
		"a number first":        {flag(`"type":"string","envVar":"OK,2FA"`), `flag 0: acme-x: the environment variable "2FA" is not a valid name`},
		"a long default":        {flag(`"type":"string","default":"` + strings.Repeat("d", 4097) + `"`), "flag 0: acme-x: the default has 4097 bytes, at most 4096 are accepted"},
		"a fraction":            {flag(`"type":"int","default":1.5`), "flag 0: acme-x: the default: must be an integer, is a number"},
		"a long help text":      {flag(`"type":"bool","usage":"` + strings.Repeat("u", 2049) + `"`), "flag 0: acme-x: usage has 2049 bytes, at most 2048 are accepted"},
		"a long variable":       {flag(`"type":"bool","envVar":"` + strings.Repeat("A", 257) + `"`), "flag 0: acme-x: the environment variable's name has 257 bytes, at most 256 are accepted"},
		"a web page":            {"<!DOCTYPE html>", "decoding flags: invalid character '<' looking for beginning of value"},
		"nothing":               {"", "decoding flags: EOF"},
		"half":                  {`[{"name":"a"`, "decoding flags: unexpected EOF"},
		"more behind":           {`[] {"name":"a"}`, "decoding flags: more data after the list"},
		"a flood":               {strings.Repeat("[", crdgen.MaxFlagsBytes+1), "decoding flags: 2097153 bytes, at most 2097152 are accepted"},
		"depth":                 {strings.Repeat("[", 100_000), "decoding flags: invalid character '[' exceeded max depth"},
	}
}

func TestHostileDriversBecomeNoKinds(t *testing.T) {
	for name, tt := range hostileLists() {
		t.Run(name, func(t *testing.T) {
			flags, err := crdgen.DecodeFlags([]byte(tt.list))
			require.EqualError(t, err, tt.err)
			require.Nil(t, flags)
		})
	}
}

// What a driver says of its flags is shown by kubectl explain: nothing in it that a terminal or a reader's eye obeys.
func TestDescriptionsObeyNobody(t *testing.T) {
	const odd = "a\x1b[31m\u009bb\u0085c\u202ed\u2066e\u200bf\r\ng\u2028h\ufeff"
	const plain = "a [31m b cdef g h"
	for kind, given := range map[crdgen.FlagType]any{crdgen.String: odd, crdgen.StringSlice: []string{odd}} {
		fields, err := crdgen.FieldsOf("acme", []crdgen.Flag{{Name: "acme-x", Type: kind, Usage: odd, Default: given}}, crdgen.Rules{})
		require.NoError(t, err)
		require.Equal(t, given, fields[0].Default, "the driver gets what it named")
		config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: "acme", Fields: fields})
		require.NoError(t, err)
		for _, crd := range []*apiextensionsv1.CustomResourceDefinition{config, template, machine} {
			requirePlain(t, crd)
		}
		require.Equal(t, plain+"\n\nDefault: "+plain+". Driver flag --acme-x.", config.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["x"].Description)
	}
}

// requirePlain: no description has more than text and the line breaks that are ours.
func requirePlain(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	var visit func(properties map[string]apiextensionsv1.JSONSchemaProps)
	visit = func(properties map[string]apiextensionsv1.JSONSchemaProps) {
		for name, property := range properties {
			require.False(t, strings.ContainsFunc(strings.ReplaceAll(property.Description, "\n\n", ""), func(r rune) bool {
				return unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
			}), "%s: %q", name, property.Description)
			visit(property.Properties)
		}
	}
	visit(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties)
}

// talkative is a driver that uses every limit: as many flags as fit the table, each with the longest help text.
func talkative() []crdgen.Flag {
	flags := make([]crdgen.Flag, crdgen.MaxFlags)
	for i := range flags {
		flags[i] = crdgen.Flag{Name: fmt.Sprintf("talk-option-number-%d", i), Type: crdgen.String, Usage: strings.Repeat("tälk ", 330)}
	}
	return flags
}

func TestHelpTextsOfATalkativeDriverAreCut(t *testing.T) {
	fields, err := crdgen.FieldsOf("talk", talkative(), crdgen.Rules{})
	require.NoError(t, err)
	config, _, machine, err := crdgen.CRDs(crdgen.Schema{Driver: "talk", Fields: fields})
	require.NoError(t, err)
	require.Less(t, len(encode(t, machine)), 1<<20, "etcd takes no more than 1.5 MiB")
	text := rootProperties(config)["optionNumber7"].Description
	require.True(t, strings.HasSuffix(text, "täl…\n\nDriver flag --talk-option-number-7."), text[len(text)-60:])
	require.True(t, utf8.ValidString(text))
	require.Len(t, fields[7].Usage, len(strings.TrimSpace(strings.Repeat("tälk ", 330))), "the caller's fields stay as they are")

	// A driver with fewer words keeps them all.
	fields, err = crdgen.FieldsOf("talk", talkative()[:100], crdgen.Rules{})
	require.NoError(t, err)
	config, _, _, err = crdgen.CRDs(crdgen.Schema{Driver: "talk", Fields: fields})
	require.NoError(t, err)
	back, err := crdgen.FieldsFromCRD(config)
	require.NoError(t, err)
	require.Equal(t, withoutUsage(fields), back)
}

// A real API server serves the kinds of a driver at every limit.
func TestServerTakesATalkativeDriver(t *testing.T) {
	fields, err := crdgen.FieldsOf("talk", talkative(), crdgen.Rules{})
	require.NoError(t, err)
	config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: "talk", Fields: fields})
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(testkit.Config(t))
	require.NoError(t, err)
	for _, crd := range []*apiextensionsv1.CustomResourceDefinition{config, template, machine} {
		manifest, err := manifestOf(crd)
		require.NoError(t, err)
		apply(t, client.Resource(crdResource), manifest)
	}
	testkit.ApplyCRDs(t, config, template, machine)
}

// An operator's default for a secret would be read by all who may read a kind: it is left out, and a warning says so.
func TestDefaultsOfSecretsAreLeftOut(t *testing.T) {
	rules := crdgen.Rules{PrivateCredentialFields: []string{"token"}, PasswordFields: []string{"pass", "pin"}, PublicCredentialFields: []string{"user"},
		Defaults: []crdgen.Pair{{Field: "token", Value: "marker-secret"}, {Field: "pass", Value: "marker-secret"},
			{Field: "pin", Value: "marker-secret"}, {Field: "user", Value: "admin"}}}
	flags := append(stringFlags("acme-token", "acme-pass", "acme-user"), crdgen.Flag{Name: "acme-pin", Type: crdgen.Int})
	fields, err := crdgen.FieldsOf("acme", flags, rules)
	require.NoError(t, err, "not even a default of the wrong type is repeated")
	config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: "acme", Fields: fields})
	require.NoError(t, err)
	for _, crd := range []any{config, template, machine, fields} {
		require.NotContains(t, string(encode(t, crd)), "marker-secret")
	}
	require.Equal(t, []string{
		`default for field "token" is left out: the field is secret, and kinds are readable by all users`,
		`default for field "pass" is left out: the field is secret, and kinds are readable by all users`,
		`default for field "pin" is left out: the field is secret, and kinds are readable by all users`,
	}, crdgen.Unmatched("acme", fields, rules))
	require.Equal(t, "admin", fields[2].Default)
}

// Every integer a driver may have as its default comes back from the table as it was.
func TestLargeDefaultsTravelOnTheCRD(t *testing.T) {
	for _, number := range []int64{1, -1, 1<<53 - 1, 1<<53 + 1, -(1<<53 + 1), 999_999_999_999_999_999} {
		fields, err := crdgen.FieldsOf("acme", []crdgen.Flag{{Name: "acme-n", Type: crdgen.Int, Default: number}}, crdgen.Rules{})
		require.NoError(t, err)
		config, _, _, err := crdgen.CRDs(crdgen.Schema{Driver: "acme", Fields: fields})
		require.NoError(t, err)
		requireValid(t, config)
		back, err := crdgen.FieldsFromCRD(config)
		require.NoError(t, err)
		require.Equal(t, number, back[0].Default)
		require.Equal(t, fmt.Sprint(number), string(rootProperties(config)["n"].Default.Raw))
	}
	_, err := crdgen.FieldsFromCRD(&metav1.ObjectMeta{Name: "x", Annotations: map[string]string{crdgen.FieldsAnnotation: `[] []`}})
	require.EqualError(t, err, "reading annotation drover.cattle.io/fields of CRD x: more data after the list")
}

// The driver reads the first variable that is set; the first name of the list is the one we set.
func TestEnvVarIsTheFirstOfTheList(t *testing.T) {
	for list, want := range map[string]string{"": "", "A": "A", "A,B": "A", " A , B": "A", ",B": "B", " , ,C_2": "C_2", "_x": "_x", ",": ""} {
		fields, err := crdgen.FieldsOf("acme", []crdgen.Flag{{Name: "acme-x", Type: crdgen.String, EnvVar: list}}, crdgen.Rules{})
		require.NoError(t, err, list)
		require.Equal(t, want, fields[0].EnvVar, list)
	}
}

// Annotations of a NodeDriver come from people; each mistake is named with the driver and the field.
func TestMistakesInRulesAreNamed(t *testing.T) {
	flags := append(stringFlags("acme-token", "acme-key-file", "acme-keyFile"), crdgen.Flag{Name: "acme-list", Type: crdgen.StringSlice})
	for name, tt := range map[string]struct{ annotation, value, err string }{
		"alias of two flags": {v3.FileAliasesAnnotation, "key:key_file", `"key_file" matches 2 flags of the driver, must match one`},
		"alias of a list":    {v3.FileAliasesAnnotation, "key:list", `"list" is not a plain string flag`},
		"alias with a path":  {v3.FileAliasesAnnotation, "../key:token", `the name "../key" has a character outside A-Z a-z 0-9 . _ -`},
		"alias of an option": {v3.FileAliasesAnnotation, "-key:token", `the name "-key" begins with a dash`},
		"alias of the kind":  {v3.FileAliasesAnnotation, "providerID:token", `the alias "providerID" has another meaning already`},
		"alias of nothing":   {v3.FileAliasesAnnotation, "userdata:userdata", `"userdata" matches 0 flags of the driver, must match one`},
		"alias twice":        {v3.FileAliasesAnnotation, "a:token,b:token", `"token" is not a plain string flag`},
		"alias taken":        {v3.FileAliasesAnnotation, "list:token", "the alias \"list\" is also the name of flag --acme-list"},
		"alias that is long": {v3.FileAliasesAnnotation, strings.Repeat("k", 129) + ":token", "the name has 129 bytes, at most 128 are accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := crdgen.FieldsOf("acme", flags, mustRules(t, map[string]string{tt.annotation: tt.value}))
			require.EqualError(t, err, "applying the file aliases of driver acme: "+tt.err)
		})
	}
}
