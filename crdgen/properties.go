package crdgen

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
)

// Bounds of users' values. They are far above the needs of any driver and below the limit of an
// object.
const (
	maxStringLength = 64 << 10
	maxFileLength   = 512 << 10
	maxListItems    = 1024

	// decimalPattern applies to the string form of an integer; empty means not given, as in
	// Rancher's forms.
	decimalPattern = `^(-?[0-9]{1,18})?$`

	// urlPattern applies to fields that must be no path.
	urlPattern = `^(https?://[^\s]+)?$`

	maxCommonNameLength = 63 + 1 + 253
)

type schemaProps = apiextensionsv1.JSONSchemaProps

// fieldProperties returns the schemas of a driver's fields. It writes defaults only on request: a
// template whose defaults the API server fills in would change with the driver.
func fieldProperties(fields []Field, withDefaults bool) (map[string]schemaProps, error) {
	out := make(map[string]schemaProps, len(fields))
	for _, field := range fields {
		if _, taken := out[field.Name]; taken {
			return nil, fmt.Errorf("two flags have the field name %q", field.Name)
		}
		if withDefaults {
			field.Default, field.Preset = field.configDefault(), nil
		}
		property, err := fieldProperty(field)
		if err != nil {
			return nil, err
		}
		if withDefaults && field.hasSchemaDefault() {
			raw, err := json.Marshal(field.Default)
			if err != nil {
				return nil, fmt.Errorf("encoding the default of field %s: %w", field.Name, err)
			}
			property.Default = &apiextensionsv1.JSON{Raw: raw}
		}
		out[field.Name] = property
	}
	return out, nil
}

// configDefault returns the default value in an <X>Config.
func (f Field) configDefault() any {
	if f.Preset != nil {
		return f.Preset
	}
	return f.Default
}

// SchemaDefault returns the value that the API server fills into an <X>Config without a value; nil if
// it fills in none.
func (f Field) SchemaDefault() any {
	if !f.hasSchemaDefault() {
		return nil
	}
	return f.configDefault()
}

// hasSchemaDefault is false for credential fields: a default in the object would take precedence
// over the credential Secret.
func (f Field) hasSchemaDefault() bool {
	return f.configDefault() != nil && !f.Secret && !f.File && f.Credential == ""
}

var urls = regexp.MustCompile(urlPattern)

func fieldProperty(field Field) (schemaProps, error) {
	property := schemaProps{Description: field.description(), Nullable: true}
	switch field.Type {
	case String:
		property.Type, property.MaxLength = "string", new(int64(maxStringLength))
		if field.File {
			property.MaxLength = new(int64(maxFileLength))
		}
		// The API server rejects kinds whose defaults break their own rules, such as a default that
		// is a path.
		preset, isText := field.Default.(string)
		if OnlyURL(field.Flag) && (field.Default == nil || isText && urls.MatchString(preset)) {
			property.Pattern = urlPattern
		}
	case Int:
		property.XIntOrString, property.Pattern = true, decimalPattern
	case Bool:
		property.Type = "boolean"
	case StringSlice:
		property.Type, property.MaxItems = "array", new(int64(maxListItems))
		property.XListType = new("atomic")
		property.Items = &apiextensionsv1.JSONSchemaPropsOrArray{
			Schema: &schemaProps{Type: "string", MaxLength: new(int64(maxStringLength))},
		}
	default:
		return schemaProps{}, fmt.Errorf("field %s has the unknown type %q", field.Name, field.Type)
	}
	if rule, ok := field.rule(); ok && rule.Check(field.Default) == nil {
		property.XValidations = apiextensionsv1.ValidationRules{{Rule: rule.CEL(), Message: rule.Says}}
	}
	if field.Secret && field.Type == String {
		property.Format = "password"
	}
	return property, nil
}

// maxUsages bounds the help texts of all fields together: a kind that does not fit into etcd cannot
// be created.
const maxUsages = 256 << 10

// fitUsages cuts the help texts of a talkative driver, so that its kinds have room.
func fitUsages(fields []Field) []Field {
	total := 0
	for _, field := range fields {
		total += len(field.Usage)
	}
	if total <= maxUsages {
		return fields
	}
	fields = slices.Clone(fields)
	most := maxUsages / len(fields)
	for i, field := range fields {
		if len(field.Usage) > most {
			fields[i].Usage = strings.ToValidUTF8(field.Usage[:most], "") + "…"
		}
	}
	return fields
}

func (f Field) description() string {
	var notes []string
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if f.File {
		add("Give the content, not a path: the driver gets it as a file.")
	}
	if f.Credential != "" {
		add("Usually key %s of the credential Secret that common.cloudCredentialSecretName names; a value here wins.", f.Name)
	} else if f.Secret {
		add("Secret.")
	}
	if OnlyURL(f.Flag) {
		add("An address that begins with http:// or https://, not a path.")
	}
	if f.Type == Int {
		add("An integer, as a number or a string.")
	}
	if f.Default != nil {
		add("Default: %s.", oneLine(DefaultText(f.Default)))
	}
	if f.Preset != nil {
		add("A Config that does not say it has %s, from the NodeDriver.", oneLine(DefaultText(f.Preset)))
	}
	add("Driver flag --%s.", f.Flag)
	return strings.TrimPrefix(f.Usage+"\n\n"+strings.Join(notes, " "), "\n\n")
}

// DefaultText is a default as a credential's variable has it.
func DefaultText(value any) string {
	if items, ok := value.([]string); ok {
		return strings.Join(items, ", ")
	}
	return fmt.Sprint(value)
}

func object(description string, properties map[string]schemaProps, required ...string) schemaProps {
	return schemaProps{Type: "object", Description: description, Properties: properties, Required: required}
}

func text(description string, maxLength int64) schemaProps {
	return schemaProps{Type: "string", Description: description, MaxLength: &maxLength}
}

// formatted is a number or a time.
func formatted(kind, format, description string) schemaProps {
	return schemaProps{Type: kind, Format: format, Description: description}
}

// oneOf restricts a property to these values.
func oneOf(property schemaProps, values ...string) schemaProps {
	for _, value := range values {
		property.Enum = append(property.Enum, apiextensionsv1.JSON{Raw: []byte(strconv.Quote(value))})
	}
	return property
}

func stringMap(description string, maxLength int64) schemaProps {
	return schemaProps{Type: "object", Description: description, AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{
		Allows: true, Schema: &schemaProps{Type: "string", MaxLength: &maxLength},
	}}
}

func list(description, listType string, item schemaProps, keys ...string) schemaProps {
	return schemaProps{
		Type: "array", Description: description, XListType: &listType, XListMapKeys: keys,
		Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item},
	}
}

// commonProperty is RKECommonNodeConfig of api/rke/v1.
func commonProperty(driverName string) schemaProps {
	credential := text("CloudCredentialSecretName names the Secret with the cloud's credential: name, or namespace:name. A Secret in "+
		"another namespace must name this namespace in its annotation drover.cattle.io/allowed-namespaces.", maxCommonNameLength)
	credential.XValidations = apiextensionsv1.ValidationRules{{
		Rule:    `self == '' || self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?:)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')`,
		Message: "must be the name of a Secret in this namespace, or namespace:name"}}
	effect := oneOf(text("Effect on pods that do not tolerate the taint.", 32), "NoSchedule", "PreferNoSchedule", "NoExecute")
	key := text("Key of the taint.", 317)
	key.MinLength = new(int64(1))
	added := text("TimeAdded is when the taint was added.", 64)
	added.Format = "date-time"
	taint := object("A taint of the Node.", map[string]schemaProps{
		"key": key, "value": text("Value of the taint.", 63), "effect": effect, "timeAdded": added,
	}, "effect", "key")
	return object("Common is what every driver's machines have beside the driver's own fields.", map[string]schemaProps{
		"labels":                    stringMap("Labels are put on the Node.", 63),
		"taints":                    list("Taints are put on the Node.", "atomic", taint),
		"cloudCredentialSecretName": credential,
		"sshContact":                sshContactProperty(driverName),
	})
}

// sshContactProperty is SSHContact of api/rke/v1.
func sshContactProperty(driverName string) schemaProps {
	mode := oneOf(text("Mode is Auto, the default, or \"Off\", with quotes in YAML: the Job does not log in, so that no host key is recorded and BootstrapDelivered stays Unknown.", 8),
		rkev1.SSHContactAuto, rkev1.SSHContactOff)
	if cloud := clouds.Of(driverName); cloud.UserData.Habit == clouds.None && (!cloud.NoServer || cloud.NeedsKey != "") {
		mode.XValidations = apiextensionsv1.ValidationRules{{Rule: fmt.Sprintf("self != '%s'", rkev1.SSHContactOff),
			Message: fmt.Sprintf("driver %s takes no user data: the bootstrap data goes over SSH, which cannot be Off", driverName)}}
	}
	user := text("User on the server; the driver's when empty.", rkev1.MaxSSHUser)
	user.Pattern = "^$|" + rkev1.SSHUserPattern
	jump := text("JumpHost is the host over which the server is reached, [user@]host[:port]. It has to let the machine's own SSH key in. drover ssh goes over "+
		"it with your own ssh.", rkev1.MaxSSHJumpHost)
	jump.Pattern = "^$|" + rkev1.SSHJumpHostPattern
	return object("SSHContact is how the Job logs in to the server after it was made, to record its host key and to look whether the bootstrap data arrived; "+
		"the machine is Ready before. Drivers without user data are bootstrapped so.", map[string]schemaProps{
		"mode": mode, "user": user, "jumpHost": jump,
		"port": integer("Port of the server's SSH daemon; the driver's when empty.", 1, 65535),
		"timeoutSeconds": integer("TimeoutSeconds bounds the contact; by default 120, and 300 where the bootstrap data goes over SSH.",
			rkev1.MinSSHTimeout, rkev1.MaxSSHTimeout),
	})
}

func integer(description string, least, most float64) schemaProps {
	return schemaProps{Type: "integer", Format: "int32", Description: description, Minimum: &least, Maximum: &most}
}
