package guard

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// bombs are half a kilobyte each and need 100 MB and more to be compiled.
var bombs = map[string]string{
	"nested":   "^(?:" + strings.Repeat("a?", 245) + "){0,1000}$",
	"captures": "^(?:" + strings.Repeat("(a?)", 120) + "){1000}$",
	"many":     "^.{0,1000}.{0,1000}.{0,1000}$",
}

// withPatterns is a class with a variable for each pattern.
func withPatterns(patterns ...string) *clusterv1.ClusterClass {
	class := classOf("tenant", "")
	for i, pattern := range patterns {
		schema := clusterv1.VariableSchema{OpenAPIV3Schema: clusterv1.JSONSchemaProps{Type: "string", Pattern: pattern}}
		class.Spec.Variables = append(class.Spec.Variables, clusterv1.ClusterClassVariable{Name: fmt.Sprint("v", i), Schema: schema})
	}
	return class
}

// within are the ways to hide a schema in another.
func within(inner clusterv1.JSONSchemaProps) map[string]clusterv1.JSONSchemaProps {
	list := []clusterv1.JSONSchemaProps{inner}
	return map[string]clusterv1.JSONSchemaProps{
		"itself": inner, "properties": {Properties: map[string]clusterv1.JSONSchemaProps{"p": inner}}, "items": {Items: &inner}, "additionalProperties": {AdditionalProperties: &inner},
		"allOf": {AllOf: list}, "anyOf": {AnyOf: list}, "oneOf": {OneOf: list}, "not": {Not: &inner}, "deep": {Items: &clusterv1.JSONSchemaProps{AllOf: list}},
	}
}

// A pattern or a rule that is much more than it looks gets no further than our webhook; one that is there already is not read, be it in the
// spec or in the status, and does not keep its Clusters from being let go.
func TestSchemas(t *testing.T) {
	rule := func(text string) clusterv1.JSONSchemaProps {
		return clusterv1.JSONSchemaProps{XValidations: []clusterv1.ValidationRule{{Rule: text}}}
	}
	message := clusterv1.JSONSchemaProps{XValidations: []clusterv1.ValidationRule{{Rule: "true", MessageExpression: "self.find('" + bombs["many"] + "')"}}}
	refused := map[string]clusterv1.JSONSchemaProps{"message": message, "made when it runs": rule("self.matches('(' + self + '){1000}')"),
		"of a function": rule("matches(self, '" + bombs["nested"] + "')"), "with a comment": rule("self.matches // x\n ('" + bombs["many"] + "')"),
		"in a loop": rule("self.all(x, x.findAll('" + bombs["many"] + "').size() > 0)"), "raw": rule("self.matches(r'" + bombs["nested"] + "')")}
	for name, bomb := range bombs {
		for how, schema := range within(clusterv1.JSONSchemaProps{Type: "string", Pattern: bomb}) {
			refused["pattern "+name+", "+how] = schema
		}
	}
	for how, schema := range within(rule("self.matches('" + bombs["nested"] + "')")) {
		refused["rule, "+how] = schema
	}
	for name, schema := range refused {
		t.Run(name, func(t *testing.T) {
			class := classOf("tenant", "*")
			class.Spec.Variables = []clusterv1.ClusterClassVariable{{Name: "v", Schema: clusterv1.VariableSchema{OpenAPIV3Schema: schema}}}
			began := time.Now()
			g := &Webhook{Client: fakeClient(t), Patterns: &Patterns{}}
			require.False(t, g.Handle(t.Context(), asked(t, "ClusterClass", class, nil)).Allowed)
			require.False(t, g.Handle(t.Context(), asked(t, "ClusterClass", class, class)).Allowed, "Cluster API would compile it again")
			copied := classOf("tenant", "*")
			copied.Status.Variables = []clusterv1.ClusterClassStatusVariable{{Name: "v", Definitions: []clusterv1.ClusterClassStatusVariableDefinition{{
				Schema: clusterv1.VariableSchema{OpenAPIV3Schema: schema}}}}}
			for _, stored := range []*clusterv1.ClusterClass{class, copied} {
				c, key, read := fakeClient(t, stored), client.ObjectKeyFromObject(stored), &clusterv1.ClusterClass{}
				require.Error(t, NewTopology(c, nil, &Patterns{}).Get(t.Context(), key, read))
				require.Error(t, Classes{c, &Patterns{}}.Get(t.Context(), key, read))
				require.True(t, apierrors.IsNotFound(Classes{c, &Patterns{}}.Get(askedAbout(t, "tenant"), key, read)))
			}
			require.Less(t, time.Since(began), 10*time.Second)
		})
	}
	for name, class := range map[string]*clusterv1.ClusterClass{
		"all patterns together": withPatterns(slicesOf(19, func(i int) string { return fmt.Sprintf("^%d.{0,490}$", i) })...),
		"too many rules":        withRules(1, maxRules+1), "too many variables with rules": withRules(maxRuled+1, 1),
		"too many schemas": withPatterns(make([]string, maxSchemas+1)...),
	} {
		_, err := checkSchemas(class)
		if name == "all patterns together" {
			require.NoError(t, err, name)
			class.Spec.Variables = append(class.Spec.Variables, class.Spec.Variables...)
			_, err = checkSchemas(class)
		}
		require.Error(t, err, name)
	}
}

func slicesOf(number int, one func(int) string) (out []string) {
	for i := range number {
		out = append(out, one(i))
	}
	return out
}

func withRules(variables, rules int) *clusterv1.ClusterClass {
	class := withPatterns(make([]string, variables)...)
	for i := range class.Spec.Variables {
		class.Spec.Variables[i].Schema.OpenAPIV3Schema.XValidations = make([]clusterv1.ValidationRule, rules)
		for j := range rules {
			class.Spec.Variables[i].Schema.OpenAPIV3Schema.XValidations[j].Rule = "self == ''"
		}
	}
	return class
}

// askedAbout is the context of one of Cluster API's webhooks.
func askedAbout(t *testing.T, namespace string) context.Context {
	t.Helper()
	return admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: namespace}})
}

// What classes have in practice is let through, and the estimate is near to what is compiled.
func TestSchemas_usual(t *testing.T) {
	for _, pattern := range []string{`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`, "^.{1,253}$", `^v\d+\.\d+\.\d+(-rc\.\d+)?$`, "(", "",
		`^((25[0-5]|(2[0-4]|1\d|[1-9]|)\d)\.?\b){4}$`, `^arn:aws:iam::\d{12}:role/.{1,512}$`, "(?i)^(small|medium|large)$", "a{3,}b*c+", "^([a-f0-9]{64}){2,4}$"} {
		_, err := checkSchemas(withPatterns(pattern))
		require.NoError(t, err, pattern)
		if parsed, err := syntax.Parse(pattern, syntax.Perl); err == nil {
			compiled, err := syntax.Compile(parsed.Simplify())
			require.NoError(t, err)
			require.GreaterOrEqual(t, 2*patternSize(pattern, maxPattern)+10, len(compiled.Inst), pattern)
		}
	}
	class := withPatterns("")
	class.Spec.Variables[0].Schema.OpenAPIV3Schema.XValidations = []clusterv1.ValidationRule{{Rule: "self.matches('^[a-z]{1,63}$') && self.size() < 10"}, {Rule: "broken ("}, {
		Rule: "self.split(',').all(x, x.find('[0-9]+') != '')", MessageExpression: "'not ' + self"}}
	_, err := checkSchemas(class)
	require.NoError(t, err)
}

// A long value is not compared with a large pattern.
func TestSchemas_longValues(t *testing.T) {
	class := classOf("tenant", "")
	schema := clusterv1.JSONSchemaProps{Items: &clusterv1.JSONSchemaProps{AllOf: []clusterv1.JSONSchemaProps{{Pattern: "^a{0,900}$"}, {Pattern: "^b{0,900}$"}}}}
	class.Status.Variables = []clusterv1.ClusterClassStatusVariable{{Name: "v", Definitions: []clusterv1.ClusterClassStatusVariableDefinition{{
		Schema: clusterv1.VariableSchema{OpenAPIV3Schema: schema}}}}}
	cluster := clusterOf("tenant", "")
	for length, allowed := range map[int]bool{2000: true, 20_000: false} {
		cluster.Spec.Topology.Variables = []clusterv1.ClusterVariable{{Name: "v", Value: apiextensionsv1.JSON{Raw: []byte(`["` + strings.Repeat("a", length) + `"]`)}}}
		c := fakeClient(t, class, cluster)
		require.Equal(t, allowed, (&Webhook{Client: c}).Handle(t.Context(), asked(t, "Cluster", cluster, nil)).Allowed)
		require.Equal(t, allowed, reconcileTopology(t, c, cluster) == nil)
	}
}

// Every pattern that was matched once stays in memory: a namespace brings only so many.
func TestPatterns_areKept(t *testing.T) {
	patterns := &Patterns{}
	bring := func(namespace string, number int) error {
		class := withPatterns(slicesOf(10, func(i int) string { return fmt.Sprintf("^%d-%d-a{0,900}$", number, i) })...)
		class.Namespace = namespace
		return patterns.checkClassContent(class)
	}
	number, err := 0, error(nil)
	for ; err == nil && number < 1000; number++ {
		require.NoError(t, bring("tenant", number/2), "the same again is nothing new")
		err = bring("tenant", number)
	}
	require.ErrorContains(t, err, "too many different patterns")
	require.Greater(t, number, 10)
	require.NoError(t, bring("other", number))
}

// A webhook of Cluster API's that is asked about a namespace reads no class that the namespace may not use.
func TestClasses_ofTheNamespaceAskedAbout(t *testing.T) {
	for allowed, there := range map[string]bool{"": false, "a": false, "tenant": true, "*": true} {
		class := classOf("victim", allowed)
		read := &clusterv1.ClusterClass{}
		err := Classes{fakeClient(t, class), &Patterns{}}.Get(askedAbout(t, "tenant"), client.ObjectKeyFromObject(class), read)
		require.Equal(t, there, err == nil)
		require.Equal(t, there, read.Name != "")
	}
}

// An authority that takes long to sign, or to read, is not signed with.
func TestAuthorities(t *testing.T) {
	encoded := func(primes int) []byte {
		key, err := rsa.GenerateMultiPrimeKey(rand.Reader, primes, 2048)
		require.NoError(t, err)
		return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	}
	for _, tt := range []struct {
		key     []byte
		allowed bool
	}{{encoded(2), true}, {encoded(3), false}, {bytes.Repeat(encoded(2), 400), false}} {
		encoded, allowed := tt.key, tt.allowed
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "c1-ca"}, Data: map[string][]byte{corev1.TLSPrivateKeyKey: encoded}}
		err := Authorities{fakeClient(t, secret)}.Get(t.Context(), client.ObjectKeyFromObject(secret), &corev1.Secret{})
		require.Equal(t, allowed, err == nil, "%v", err)
	}
}
