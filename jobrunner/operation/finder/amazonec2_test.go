package finder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/credentials"
	v4 "github.com/aws/aws-sdk-go/aws/signer/v4"
	"github.com/aws/aws-sdk-go/service/ec2"
	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
)

const (
	amazonID     = "AKIDEXAMPLE"
	amazonSecret = "wJalrXUtnFEMI/K7MDENG+EXAMPLEKEY"
)

// ec2Instance is an instance as DescribeInstances shows it.
type ec2Instance struct {
	id, state string
	tags      map[string]string
}

// ec2Account is an account in the shapes of the Amazon EC2 API Reference (version 2016-11-15): the Query protocol with
// signature version 4, XML answers, NextToken. It applies filters as the reference says, and its pages have one reservation.
type ec2Account struct {
	*testing.T
	mutex     sync.Mutex
	regions   map[string][]ec2Instance
	keyPairs  map[string]string // id → "name public key"
	requests  []url.Values
	refuse    map[string]refusal
	blind     bool // it ignores filters
	endless   bool // every page names a next one
	noRegions bool
}

// refusal is an answer that is no success, or none at all.
type refusal struct {
	status int
	body   string
}

const ec2Errors = `<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>ea966190-f9aa-478e-9ede-EXAMPLE</RequestID></Response>`

func (a *ec2Account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	body, _ := io.ReadAll(r.Body)
	form, err := url.ParseQuery(string(body))
	region := a.checkSignature(r, body)
	if err != nil || form.Get("Version") != "2016-11-15" || r.Method != http.MethodPost || r.URL.Path != "/" {
		a.Errorf("no request of the Query protocol: %s %s %v", r.Method, r.URL, form)
	}
	form.Set("region", region)
	a.requests = append(a.requests, form)
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	action := form.Get("Action")
	if refused, ok := a.refuse[action+" "+region]; ok {
		w.WriteHeader(refused.status)
		_, _ = io.WriteString(w, refused.body)
		return
	}
	var answer string
	switch action {
	case "DescribeRegions":
		answer = a.describeRegions()
	case "DescribeInstances":
		answer = a.describeInstances(form, region)
	case "DescribeKeyPairs":
		answer = a.describeKeyPairs(form)
	case "DeleteKeyPair":
		delete(a.keyPairs, form.Get("KeyPairId"))
		answer = "<return>true</return>"
	case "TerminateInstances":
		answer = a.terminate(form, region)
	default:
		a.Errorf("unexpected action %s", action)
	}
	_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><%[1]sResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>8f7724cf-496f-496e-8fe3-example</requestId>%[2]s</%[1]sResponse>`, action, answer)
}

// checkSignature signs the request again, as the service does, and returns the region it was signed for.
func (a *ec2Account) checkSignature(r *http.Request, body []byte) string {
	given := r.Header.Get("Authorization")
	_, scope, _ := strings.Cut(given, "Credential="+amazonID+"/")
	parts := strings.Split(scope, "/")
	if len(parts) < 4 || !strings.HasPrefix(parts[3], "aws4_request") || parts[2] != "ec2" {
		a.Errorf("a signature of no use: %s", given)
		return ""
	}
	signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	again, requestErr := http.NewRequestWithContext(r.Context(), r.Method, "http://"+r.Host+r.URL.String(), bytes.NewReader(body))
	if err = errors.Join(err, requestErr); err == nil {
		again.Header.Set("Content-Type", r.Header.Get("Content-Type"))
		again.Header.Set("Content-Length", strconv.Itoa(len(body)))
		_, err = v4.NewSigner(credentials.NewStaticCredentials(amazonID, amazonSecret, "")).Sign(again, bytes.NewReader(body), "ec2", parts[1], signed)
	}
	if err != nil || again.Header.Get("Authorization") != given {
		a.Errorf("the signature is not right (%v): %s, want %s", err, given, again.Header.Get("Authorization"))
	}
	return parts[1]
}

func (a *ec2Account) describeRegions() string {
	var items strings.Builder
	for region := range a.regions {
		fmt.Fprintf(&items, "<item><regionName>%s</regionName><regionEndpoint>ec2.%s.amazonaws.com</regionEndpoint><optInStatus>opt-in-not-required</optInStatus></item>", region, region)
	}
	if a.noRegions {
		return "<regionInfo/>"
	}
	return "<regionInfo>" + items.String() + "</regionInfo>"
}

// filters are Filter.N.Name and Filter.N.Value.M.
func filtersOf(form url.Values) map[string][]string {
	out := map[string][]string{}
	for n := 1; form.Has("Filter." + strconv.Itoa(n) + ".Name"); n++ {
		prefix := "Filter." + strconv.Itoa(n)
		for m := 1; form.Has(prefix + ".Value." + strconv.Itoa(m)); m++ {
			name := form.Get(prefix + ".Name")
			out[name] = append(out[name], form.Get(prefix+".Value."+strconv.Itoa(m)))
		}
	}
	return out
}

func (i ec2Instance) matches(filters map[string][]string) bool {
	for name, values := range filters {
		key, ByTag := strings.CutPrefix(name, "tag:")
		_, has := i.tags[values[0]]
		switch {
		case ByTag && !slices.Contains(values, i.tags[key]), name == "tag-key" && !has, name == "instance-state-name" && !slices.Contains(values, i.state):
			return false
		}
	}
	return true
}

func (i ec2Instance) xml(region string) string {
	var tags strings.Builder
	for key, value := range i.tags {
		fmt.Fprintf(&tags, "<item><key>%s</key><value>%s</value></item>", key, value)
	}
	return fmt.Sprintf(`<item><reservationId>r-1234567890abcdef0</reservationId><ownerId>123456789012</ownerId><groupSet/><instancesSet><item>
		<instanceId>%s</instanceId><imageId>ami-bff32ccc</imageId><instanceState><code>16</code><name>%s</name></instanceState>
		<privateDnsName>ip-192-168-1-88.ec2.internal</privateDnsName><keyName>pool-1-abcde</keyName><instanceType>t2.micro</instanceType>
		<launchTime>2026-11-01T10:00:00.000Z</launchTime><placement><availabilityZone>%sa</availabilityZone><tenancy>default</tenancy></placement>
		<privateIpAddress>192.168.1.88</privateIpAddress><ipAddress>198.18.5.5</ipAddress><tagSet>%s</tagSet>
		</item></instancesSet></item>`, i.id, i.state, region, tags.String())
}

func (a *ec2Account) describeInstances(form url.Values, region string) string {
	filters := filtersOf(form)
	var found []ec2Instance
	for _, instance := range a.regions[region] {
		byID := form.Get("InstanceId.1")
		if (byID == "" || byID == instance.id) && (a.blind || instance.matches(filters)) {
			found = append(found, instance)
		}
	}
	at, _ := strconv.Atoi(form.Get("NextToken"))
	set, next := "", ""
	if at < len(found) {
		set = found[at].xml(region)
	}
	if at+1 < len(found) || a.endless {
		next = "<nextToken>" + strconv.Itoa(at+1) + "</nextToken>"
	}
	return "<reservationSet>" + set + "</reservationSet>" + next
}

func (a *ec2Account) describeKeyPairs(form url.Values) string {
	pattern := filtersOf(form)["key-name"]
	if len(pattern) != 1 || form.Get("IncludePublicKey") != "true" {
		a.Errorf("it must be asked for key pairs of the machine: %v", form)
	}
	var set strings.Builder
	for id, pair := range a.keyPairs {
		name, key, _ := strings.Cut(pair, " ")
		if len(name) == len(pattern[0]) && strings.HasPrefix(name, strings.TrimRight(pattern[0], "?")) {
			fmt.Fprintf(&set, "<item><keyPairId>%s</keyPairId><keyName>%s</keyName><publicKey>%s</publicKey></item>", id, name, key)
		}
	}
	return "<keySet>" + set.String() + "</keySet>"
}

func (a *ec2Account) terminate(form url.Values, region string) string {
	for at := range a.regions[region] {
		if a.regions[region][at].id == form.Get("InstanceId.1") {
			a.regions[region][at].state = "shutting-down"
		}
	}
	return "<instancesSet/>"
}

func (a *ec2Account) did(action string) int {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return len(slices.DeleteFunc(slices.Clone(a.requests), func(form url.Values) bool { return form.Get("Action") != action }))
}

// amazon is the cloud as the finder has it, in eu-west-1, with the account behind all regions' addresses.
func (a *ec2Account) amazon(set map[string]any) *amazonEC2 {
	a.Helper()
	server := httptest.NewServer(a)
	a.Cleanup(server.Close)
	values := map[string]any{"amazonec2-region": "eu-west-1", "amazonec2-access-key": amazonID, "amazonec2-secret-key": amazonSecret, "amazonec2-endpoint": server.URL}
	maps.Copy(values, set)
	out := newAmazonEC2(defaults(a.T, amazonName, values))
	if _, given := set["amazonec2-endpoint"]; !given {
		out.endpoint = ""
	}
	config := aws.NewConfig().WithEndpoint(server.URL).WithMaxRetries(0).WithCredentials(credentials.NewStaticCredentials(amazonID, amazonSecret, ""))
	out.connect = func() (func(string) *ec2.EC2, error) { return connectAmazon(config) }
	return out
}

func newEC2(t *testing.T) *ec2Account {
	t.Helper()
	ours, others := pairsOf(amazonName, "m-uid"), pairsOf(amazonName, "other")
	ours["Name"], others["Name"] = "pool-1", "pool-1"
	return &ec2Account{T: t, refuse: map[string]refusal{}, keyPairs: map[string]string{}, regions: map[string][]ec2Instance{
		"eu-west-1": {{"i-1", "running", ours}, {"i-2", "running", others}, {"i-3", "running", map[string]string{"Name": "pool-1"}}, {"i-4", "terminated", ours}, {"i-5", "shutting-down", ours}},
		"us-east-1": {{"i-6", "stopped", others}, {"i-7", "running", map[string]string{jobrunner.TagCluster: "c1"}}},
	}}
}

func TestAmazonEC2_Find(t *testing.T) {
	account := newEC2(t)
	finder, _ := impatient(t, amazonName, account.amazon(nil))
	found, err := finder.Find(t.Context(), sought("m-uid"))
	require.NoError(t, err)
	require.Equal(t, []Server{{ID: "i-1", Name: "pool-1", Record: map[string]any{
		"InstanceId": "i-1", "Region": "eu-west-1", "Zone": "eu-west-1a", "KeyName": "pool-1-abcde", "PrivateIPAddress": "192.168.1.88", "IPAddress": "198.18.5.5",
	}}}, plain(found), "what is terminated or on its way out is not there")
	require.Len(t, account.requests, 1)
	require.Equal(t, map[string][]string{
		"tag:drover-machine-uid": {"m-uid"}, "instance-state-name": {"pending", "running", "stopping", "stopped"},
	}, filtersOf(account.requests[0]))
	require.Equal(t, "200", account.requests[0].Get("MaxResults"))

	found, err = finder.Find(t.Context(), lost("nobody"))
	require.NoError(t, err)
	require.Empty(t, found)
	account.blind = true
	found, err = finder.Find(t.Context(), sought("m-uid"))
	require.NoError(t, err)
	require.Equal(t, []string{"i-1"}, ids(found), "a cloud that knows no filters is not believed, and has pages")
}

func TestAmazonEC2_List(t *testing.T) {
	account := newEC2(t)
	found, err := ByTag{cloud: account.amazon(nil)}.List(t.Context())
	require.NoError(t, err)
	slices.SortFunc(found, func(a, b Server) int { return strings.Compare(a.ID, b.ID) })
	require.Equal(t, []string{"i-1", "i-2", "i-6"}, ids(found), "those of all regions that name a machine")
	require.Equal(t, machineTags("m-uid"), found[0].Tags)
	require.Equal(t, time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC), found[0].Created.UTC())
	require.Equal(t, "us-east-1", found[2].Record["Region"])
	require.Equal(t, "us-east-1a", found[2].Record["Zone"])
	require.Equal(t, 1, account.did("DescribeRegions"))

	mine := newEC2(t)
	found, err = ByTag{cloud: mine.amazon(map[string]any{"amazonec2-endpoint": "http://other.example"})}.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"i-1", "i-2"}, ids(found))
	require.Zero(t, mine.did("DescribeRegions"), "a cloud of another maker has the region of its address")
	require.Equal(t, "http://other.example", found[0].Record["Endpoint"])
	require.Equal(t, "aws:///eu-west-1", mine.amazon(map[string]any{"amazonec2-endpoint": "http://other.example"}).Within(t.Context()))
	require.Empty(t, mine.amazon(nil).Within(t.Context()))
}

// Whatever is not the whole list is an error of its class, and never "there is none".
func TestAmazonEC2_isWholeOrFails(t *testing.T) {
	answer := func(code, message string) string { return fmt.Sprintf(ec2Errors, code, message) }
	for name, c := range map[string]struct {
		refusal
		class string
	}{
		"throttled":           {refusal{503, answer("RequestLimitExceeded", "Request limit exceeded.")}, rkev1.ClassThrottled},
		"a wrong secret":      {refusal{401, answer("AuthFailure", "AWS was not able to validate the provided access credentials")}, rkev1.ClassUnauthorized},
		"a request too late":  {refusal{400, answer("RequestExpired", "Request has expired.")}, rkev1.ClassTransient},
		"not allowed":         {refusal{403, answer("UnauthorizedOperation", "You are not authorized to perform this operation.")}, rkev1.ClassUnauthorized},
		"an accident":         {refusal{500, answer("InternalError", "An internal error has occurred")}, rkev1.ClassTransient},
		"out of order":        {refusal{503, answer("Unavailable", "The server is overloaded and can't handle the request.")}, rkev1.ClassTransient},
		"a proxy's page":      {refusal{200, "<html><body>Please log in</body></html>"}, ""},
		"a proxy's error":     {refusal{502, "<html><body>Bad gateway</body></html>"}, ""},
		"another answer":      {refusal{200, "<DescribeVpcsResponse><vpcSet/></DescribeVpcsResponse>"}, ""},
		"half an answer":      {refusal{200, "<DescribeInstancesResponse><reservationSet>"}, ""},
		"no answer":           {refusal{200, ""}, ""},
		"no such thing there": {refusal{404, "Not Found"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			account := newEC2(t)
			account.refuse["DescribeInstances eu-west-1"] = c.refusal
			finder, waits := impatient(t, amazonName, account.amazon(nil))
			found, err := finder.Find(t.Context(), lost("m-uid"))
			require.Error(t, err)
			require.Empty(t, found)
			require.Empty(t, *waits, "an error is the Job's to come back from")
			require.NotContains(t, err.Error(), amazonSecret)
			if c.class != "" {
				requireClass(t, amazonName, c.class, err)
			}
			found2, err := ByTag{cloud: account.amazon(nil)}.List(t.Context())
			require.ErrorContains(t, err, "eu-west-1", "the region that did not answer is named")
			require.Empty(t, found2, "a region that does not answer spoils the list")
		})
	}
}

func TestAmazonEC2_List_fails(t *testing.T) {
	account := newEC2(t)
	account.noRegions = true
	_, err := ByTag{cloud: account.amazon(nil)}.List(t.Context())
	require.ErrorContains(t, err, "the list is empty")
	account.refuse["DescribeRegions eu-west-1"] = refusal{403, fmt.Sprintf(ec2Errors, "UnauthorizedOperation", "You are not authorized to perform this operation.")}
	_, err = ByTag{cloud: account.amazon(nil)}.List(t.Context())
	requireClass(t, amazonName, rkev1.ClassUnauthorized, err)
	endless := newEC2(t)
	endless.endless = true
	finder, _ := impatient(t, amazonName, endless.amazon(nil))
	_, err = finder.Find(t.Context(), lost("m-uid"))
	require.ErrorIs(t, err, errTooMany)
	require.Equal(t, maxPages, endless.did("DescribeInstances"))
}

func TestAmazonEC2_Remove(t *testing.T) {
	account := newEC2(t)
	cloud := account.amazon(nil)
	finder, _ := impatient(t, amazonName, cloud)
	ours := listed("i-1", "m-uid")
	require.NoError(t, finder.Remove(t.Context(), ours))
	require.Equal(t, "shutting-down", account.regions["eu-west-1"][0].state)
	require.NoError(t, finder.Remove(t.Context(), ours), "who is going is gone")
	require.NoError(t, finder.Remove(t.Context(), listed("i-99", "m-uid")), "and who is not there")
	require.Equal(t, 1, account.did("TerminateInstances"))
	for _, id := range []string{"i-2", "i-3"} {
		require.ErrorIs(t, finder.Remove(t.Context(), listed(id, "m-uid")), errNotOurs)
	}
	found, err := ByTag{cloud: cloud}.List(t.Context())
	require.NoError(t, err)
	for _, server := range found {
		require.NoError(t, ByTag{cloud: cloud}.Remove(t.Context(), server))
	}
	require.Equal(t, "shutting-down", account.regions["us-east-1"][0].state, "each in its region")
	require.Equal(t, "running", account.regions["us-east-1"][1].state)
}

func TestAmazonEC2_Remove_fails(t *testing.T) {
	for action, want := range map[string]string{"DescribeInstances": "OperationNotPermitted", "TerminateInstances": "OperationNotPermitted"} {
		account := newEC2(t)
		account.refuse[action+" eu-west-1"] = refusal{400, fmt.Sprintf(ec2Errors, "OperationNotPermitted", "The instance may not be terminated. Modify its 'disableApiTermination' instance attribute.")}
		finder, _ := impatient(t, amazonName, account.amazon(nil))
		require.ErrorContains(t, finder.Remove(t.Context(), listed("i-1", "m-uid")), want)
		account.refuse[action+" eu-west-1"] = refusal{400, fmt.Sprintf(ec2Errors, "InvalidInstanceID.NotFound", "The instance ID 'i-1' does not exist")}
		require.NoError(t, finder.Remove(t.Context(), listed("i-1", "m-uid")), "gone is gone")
	}
}

func TestAmazonEC2_Sweep(t *testing.T) {
	pairs := map[string]string{"key-1": "pool-1-abcde " + ourKey, "key-2": "pool-1-fghij " + othersKey, "key-3": "pool-1-backup " + ourKey, "key-4": "mine " + ourKey}
	for name, c := range map[string]struct {
		machine Machine
		set     map[string]any
		gone    []string
	}{
		"by name and key":            {machine: sought("m-uid"), gone: []string{"key-1"}},
		"the key is lost":            {machine: Machine{InstanceName: "pool-1", Tags: machineTags("m-uid")}},
		"no name":                    {machine: Machine{PublicKey: []byte(ourKey)}},
		"the user's key pair":        {machine: sought("m-uid"), set: map[string]any{"amazonec2-keypair-name": "mine"}},
		"nothing of another machine": {machine: Machine{InstanceName: "pool", PublicKey: []byte(ourKey)}},
	} {
		t.Run(name, func(t *testing.T) {
			account := newEC2(t)
			maps.Copy(account.keyPairs, pairs)
			finder, _ := impatient(t, amazonName, account.amazon(c.set))
			require.NoError(t, finder.Sweep(t.Context(), c.machine))
			for id := range pairs {
				_, there := account.keyPairs[id]
				require.Equal(t, !slices.Contains(c.gone, id), there, id)
			}
		})
	}
	account := newEC2(t)
	account.refuse["DescribeKeyPairs eu-west-1"] = refusal{403, fmt.Sprintf(ec2Errors, "UnauthorizedOperation", "You are not authorized to perform this operation.")}
	requireClass(t, amazonName, rkev1.ClassUnauthorized, account.amazon(nil).Sweep(t.Context(), sought("m-uid")))
}

// TestNewAmazonEC2 checks the addresses and the credential without asking anybody.
func TestNewAmazonEC2(t *testing.T) {
	for want, set := range map[string]map[string]any{
		"https://ec2.eu-west-1.api.aws": nil,
		"https://cloud.example:8443":    {"amazonec2-endpoint": "cloud.example:8443"},
		"http://cloud.example":          {"amazonec2-endpoint": "cloud.example", "amazonec2-insecure-transport": true},
	} {
		values := map[string]any{"amazonec2-region": "eu-west-1", "amazonec2-access-key": "a", "amazonec2-secret-key": "b", "amazonec2-session-token": "c"}
		maps.Copy(values, set)
		at, err := newAmazonEC2(defaults(t, amazonName, values)).connect()
		require.NoError(t, err)
		api := at("eu-west-1")
		require.Equal(t, want, api.Endpoint)
		given, err := api.Config.Credentials.Get()
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b", "c"}, []string{given.AccessKeyID, given.SecretAccessKey, given.SessionToken})
		require.Equal(t, requestTimeout, api.Config.HTTPClient.Timeout)
	}
}

func FuzzIsWhole(f *testing.F) {
	f.Add([]byte("<XResponse><a/></XResponse>"), "XResponse")
	f.Add([]byte("<?xml version=\"1.0\"?><XResponse/>"), "XResponse")
	f.Add([]byte("<html>"), "XResponse")
	f.Fuzz(func(t *testing.T, document []byte, root string) {
		if isWhole(document, root) != nil {
			return
		}
		require.NotEmpty(t, root)
		end := bytes.LastIndex(document, []byte("</"+root+">"))
		if rest := document[max(end, 0):]; end > 0 && bytes.Count(document, []byte(root)) == 2 && bytes.Count(rest, []byte(">")) == 1 {
			require.Error(t, isWhole(document[:end], root), "without its end")
		}
	})
}
