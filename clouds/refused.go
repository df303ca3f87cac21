package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// NothingMade reports whether an error of this class means that the cloud refused to make anything. The text says whether
// it had agreed already.
func (c Cloud) NothingMade(class, text string) bool {
	if c.words.unsure || containsAny(plain(text), c.words.afterRequest) {
		return false
	}
	switch class {
	case rkev1.ClassInvalid, rkev1.ClassUnauthorized, rkev1.ClassQuota, rkev1.ClassCapacity, rkev1.ClassThrottled:
		return true
	}
	return false
}
