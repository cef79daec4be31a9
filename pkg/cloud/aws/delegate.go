package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	kt "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// requestUpgrade asks EKS to move a managed node group to a revision. The request names everything in the revision, so that EKS
// chooses nothing that the plan did not show. A repetition with the same token starts no second update.
func (m *managedGroups) requestUpgrade(ctx context.Context, group string, a nodegroup.Delegate) error {
	doing := fmt.Sprintf("starting EKS's upgrade of node group %q to %s", group, a.To.Name)
	var to managedPointer
	if err := json.Unmarshal([]byte(a.To.Spec), &to); err != nil {
		return fatalError("%s: reading the recorded revision: %w", doing, err)
	}
	in, err := newUpgradeInput(to, a)
	if err != nil {
		return fatalError("%s: %w", doing, err)
	}
	out, err := m.eks.UpdateNodegroupVersion(ctx, in)
	if err != nil {
		return explainRefusedUpdate(doing, err)
	}
	if out.Update != nil {
		name := managedName{cluster: to.Cluster, nodegroup: to.Nodegroup}
		m.cache.rememberUpdate(name, out.Update)
		m.cache.forced.add(map[updateKey]bool{{name, sdk.ToString(out.Update.Id)}: a.Force})
	}
	return nil
}

// newUpgradeInput returns the request that moves a node group to the pointer's revision.
func newUpgradeInput(to managedPointer, a nodegroup.Delegate) (*eks.UpdateNodegroupVersionInput, error) {
	if to.Cluster == "" || to.Nodegroup == "" || to.Release == "" && to.Template == "" {
		return nil, errors.New("the recorded revision has no node group, or neither a release nor a launch template")
	}
	in := &eks.UpdateNodegroupVersionInput{
		ClusterName: sdk.String(to.Cluster), NodegroupName: sdk.String(to.Nodegroup),
		ClientRequestToken: sdk.String(clientToken(a.Token)), Force: a.Force,
	}
	if to.Release != "" {
		in.Version, in.ReleaseVersion = sdk.String(to.Kubernetes), sdk.String(to.Release)
	}
	if to.Template != "" && to.Version > 0 {
		in.LaunchTemplate = &kt.LaunchTemplateSpecification{Id: sdk.String(to.Template), Version: sdk.String(strconv.FormatInt(to.Version, 10))}
	}
	return in, nil
}

// explainRefusedUpdate explains the error. If no repetition of the request can succeed, it also adds a remedy.
func explainRefusedUpdate(doing string, err error) error {
	explained := explainError(doing, err)
	answered, sorted := errors.AsType[*cloud.Error](explained)
	api, said := errors.AsType[smithy.APIError](err)
	if !sorted || answered.Outcome != nodegroup.OutcomeFatal || !said {
		return explained
	}
	switch code, message := api.ErrorCode(), strings.ToLower(api.ErrorMessage()); {
	case strings.Contains(message, "token"):
		answered.Err = fmt.Errorf("%w: start the upgrade again", answered.Err)
	case code == "InvalidParameterException" || code == "InvalidRequestException":
		answered.Err = fmt.Errorf("%w: pass another release or template version with --to", answered.Err)
	}
	return explained
}
