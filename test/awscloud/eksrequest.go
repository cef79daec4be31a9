package awscloud

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// versionRequest is the body of UpdateNodegroupVersion.
type versionRequest struct {
	ClientRequestToken string
	Force              bool
	LaunchTemplate     struct{ ID, Name, Version string }
	ReleaseVersion     string
	Version            string
}

// configRequest is the body of UpdateNodegroupConfig. Only the update configuration is modelled.
type configRequest struct {
	ClientRequestToken string
	UpdateConfig       struct {
		MaxUnavailable, MaxUnavailablePercentage int32
		UpdateStrategy                           ekstypes.NodegroupUpdateStrategies
	}
}

// nodegroupUpdate is an update of a managed node group. The values to which the pointers in shown point are replaced and never
// changed in place.
type nodegroupUpdate struct {
	shown    ekstypes.Update
	token    string
	request  any // the request, without its token
	to       revision
	force    bool
	phase    UpdatePhase
	draining []string // nodes, from the start of their drain until they are gone
	hidden   bool     // EKS no longer shows it, see HideUpdate
}

func updateNodegroupVersion(ctx context.Context, r *region, q eksRequest) (any, error) {
	n, err := r.nodegroup(q.path["name"], q.path["nodegroupName"])
	if err != nil {
		return nil, err
	}
	var in versionRequest
	if err := q.decode(&in); err != nil {
		return nil, err
	}
	token := in.ClientRequestToken
	in.ClientRequestToken = ""
	if u, err := r.findRepeatedUpdate(n, token, in); u != nil || err != nil {
		return &eks.UpdateNodegroupVersionOutput{Update: u}, err
	}
	to, err := r.requestedRevision(n, in)
	if err != nil {
		return nil, err
	}
	params := []ekstypes.UpdateParam{
		{Type: ekstypes.UpdateParamTypeVersion, Value: aws.String(to.version)},
		{Type: ekstypes.UpdateParamTypeReleaseVersion, Value: aws.String(to.release)},
	}
	if to.template != (TemplateRef{}) {
		params = append(params,
			ekstypes.UpdateParam{Type: ekstypes.UpdateParamTypeLaunchTemplateName, Value: aws.String(to.template.Name)},
			ekstypes.UpdateParam{Type: ekstypes.UpdateParamTypeLaunchTemplateVersion, Value: aws.String(to.template.Version)})
	}
	u := &nodegroupUpdate{token: token, request: in, to: to, force: in.Force}
	r.beginUpdate(n, u, ekstypes.UpdateTypeVersionUpdate, params)
	run := &updater{region: r, group: n, update: u}
	r.updates.Go(func() { run.run(ctx) })
	return &eks.UpdateNodegroupVersionOutput{Update: u.describe()}, nil
}

// updateNodegroupConfig changes the update configuration. The change takes EKSOptions.Setup. Other changes are not modelled. A
// smaller size would remove nodes without a drain (EKS E53).
func updateNodegroupConfig(ctx context.Context, r *region, q eksRequest) (any, error) {
	n, err := r.nodegroup(q.path["name"], q.path["nodegroupName"])
	if err != nil {
		return nil, err
	}
	var in configRequest
	if err := q.decode(&in); err != nil {
		return nil, err
	}
	token := in.ClientRequestToken
	in.ClientRequestToken = ""
	if u, err := r.findRepeatedUpdate(n, token, in); u != nil || err != nil {
		return &eks.UpdateNodegroupConfigOutput{Update: u}, err
	}
	config, params, err := in.applyTo(n.shown.UpdateConfig)
	if err != nil {
		return nil, err
	}
	u := &nodegroupUpdate{token: token, request: in}
	r.beginUpdate(n, u, ekstypes.UpdateTypeConfigUpdate, params)
	r.updates.Go(func() {
		if sleep(ctx, r.opts.EKS.Setup) != nil {
			return
		}
		_ = r.update(func(now time.Time) error {
			n.shown.UpdateConfig, u.shown.Status = config, ekstypes.UpdateStatusSuccessful
			n.setStatus(ekstypes.NodegroupStatusActive, now)
			return nil
		})
	})
	return &eks.UpdateNodegroupConfigOutput{Update: u.describe()}, nil
}

// applyTo returns the update configuration after the request, and the changes as parameters of the update (EKS E06, E07).
func (in configRequest) applyTo(present *ekstypes.NodegroupUpdateConfig) (*ekstypes.NodegroupUpdateConfig, []ekstypes.UpdateParam, error) {
	c, out, params := in.UpdateConfig, *present, []ekstypes.UpdateParam{}
	add := func(name ekstypes.UpdateParamType, value string) {
		params = append(params, ekstypes.UpdateParam{Type: name, Value: aws.String(value)})
	}
	switch {
	case c.MaxUnavailable != 0 && c.MaxUnavailablePercentage != 0:
		return nil, nil, invalidParameterError("maxUnavailable and maxUnavailablePercentage can't both be specified.")
	case min(c.MaxUnavailable, c.MaxUnavailablePercentage) < 0 || max(c.MaxUnavailable, c.MaxUnavailablePercentage) > 100:
		return nil, nil, invalidParameterError("The update configuration needs a value between 1 and 100.")
	case c.MaxUnavailable != 0:
		out.MaxUnavailable, out.MaxUnavailablePercentage = aws.Int32(c.MaxUnavailable), nil
		add(ekstypes.UpdateParamTypeMaxUnavailable, strconv.Itoa(int(c.MaxUnavailable)))
	case c.MaxUnavailablePercentage != 0:
		out.MaxUnavailable, out.MaxUnavailablePercentage = nil, aws.Int32(c.MaxUnavailablePercentage)
		add(ekstypes.UpdateParamTypeMaxUnavailablePercentage, strconv.Itoa(int(c.MaxUnavailablePercentage)))
	}
	if c.UpdateStrategy != "" {
		if !slices.Contains(c.UpdateStrategy.Values(), c.UpdateStrategy) {
			return nil, nil, invalidParameterError("The update strategy %s is invalid.", c.UpdateStrategy)
		}
		out.UpdateStrategy = c.UpdateStrategy
		add(ekstypes.UpdateParamTypeUpdateStrategy, string(c.UpdateStrategy))
	}
	return &out, params, nil
}

// findRepeatedUpdate returns the update that an earlier request with the same token started. If another update is in progress, it
// returns an error or, with JoinRunning, the running update. It returns nil if the request may start an update.
func (r *region) findRepeatedUpdate(n *nodegroup, token string, asked any) (*ekstypes.Update, error) {
	for _, u := range n.updates {
		if u.token != token || token == "" {
			continue
		}
		if u.request != asked {
			return nil, clientError("InvalidRequestException", "The client request token %s was used before with other parameters.", token)
		}
		return u.describe(), nil
	}
	u := n.newestUpdate()
	switch {
	case u == nil || u.shown.Status != ekstypes.UpdateStatusInProgress:
		return nil, nil
	case r.opts.EKS.JoinRunning:
		return u.describe(), nil
	}
	return nil, &apiError{
		Code: "ResourceInUseException", Status: http.StatusConflict,
		Message: "Cannot update because node group " + n.spec.Name + " currently has update " + *u.shown.Id + " in progress",
	}
}

// beginUpdate adds an update to the node group.
func (r *region) beginUpdate(n *nodegroup, u *nodegroupUpdate, kind ekstypes.UpdateType, params []ekstypes.UpdateParam) {
	now := time.Now()
	u.shown = ekstypes.Update{
		Id: aws.String(r.uuid()), Type: kind, Status: ekstypes.UpdateStatusInProgress, Params: params,
		CreatedAt: aws.Time(now), Errors: []ekstypes.ErrorDetail{},
	}
	n.updates = append(n.updates, u)
	n.setStatus(ekstypes.NodegroupStatusUpdating, now)
}

func (u *nodegroupUpdate) describe() *ekstypes.Update {
	shown := u.shown
	return &shown
}

func (n *nodegroup) newestUpdate() *nodegroupUpdate {
	if len(n.updates) == 0 {
		return nil
	}
	return n.updates[len(n.updates)-1]
}

func describeUpdate(_ context.Context, r *region, q eksRequest) (any, error) {
	id := q.path["updateId"]
	cluster, name := q.path["name"], q.query.Get("nodegroupName")
	if _, ok := r.clusters[cluster]; name == "" && ok {
		return nil, notFoundError("update", id) // only node groups have updates here
	}
	n, err := r.nodegroup(cluster, name)
	if err != nil {
		return nil, err
	}
	for _, u := range n.updates {
		if *u.shown.Id == id && !u.hidden {
			return &eks.DescribeUpdateOutput{Update: u.describe()}, nil
		}
	}
	return nil, notFoundError("update", id)
}

// listUpdates lists the updates of a node group. The cluster itself has no updates here. EKS does not document the order of the
// list.
func listUpdates(_ context.Context, r *region, q eksRequest) (any, error) {
	ids := []string{}
	cluster, name := q.path["name"], q.query.Get("nodegroupName")
	if _, ok := r.clusters[cluster]; !ok || name != "" {
		n, err := r.nodegroup(cluster, name)
		if err != nil {
			return nil, err
		}
		for _, u := range n.updates {
			if !u.hidden {
				ids = append(ids, *u.shown.Id)
			}
		}
	}
	if !r.opts.EKS.ListOldestFirst {
		slices.Reverse(ids)
	}
	ids, next, err := q.page(ids)
	return &eks.ListUpdatesOutput{UpdateIds: ids, NextToken: next}, err
}

// requestedRevision returns the revision to which a request updates the node group's nodes. It refuses the requests that EKS
// refuses, with the messages that users have reported.
func (r *region) requestedRevision(n *nodegroup, in versionRequest) (revision, error) {
	to, err := r.requestedTemplateRevision(n, in)
	if err != nil || to.image != "" {
		return to, err
	}
	if err := r.checkVersion(n, in.Version); err != nil {
		return revision{}, err
	}
	to.version = cmp.Or(in.Version, aws.ToString(n.shown.Version))
	to.release = cmp.Or(in.ReleaseVersion, r.recommended[to.version])
	image, known := r.releases[to.release]
	of, _, _ := splitRelease(to.release)
	own := aws.ToString(n.shown.ReleaseVersion)
	switch {
	case !known || of != to.version:
		return revision{}, invalidParameterError("Requested release version %s is not valid for kubernetes version %s.", to.release, to.version)
	case strings.HasPrefix(own, to.version+".") && compareReleases(to.release, own) < 0:
		return revision{}, invalidParameterError("Node group release version %s cannot be rolled back to %s.", own, to.release)
	}
	to.image = image
	return to, nil
}

// requestedTemplateRevision returns a revision with only the template of a request. If the template has a custom AMI, the
// revision also has version, release and image.
func (r *region) requestedTemplateRevision(n *nodegroup, in versionRequest) (revision, error) {
	present, asked := n.shown.LaunchTemplate, in.LaunchTemplate
	custom := n.shown.AmiType == ekstypes.AMITypesCustom
	if err := checkTemplateRequest(n, in); err != nil || present == nil {
		return revision{}, err
	}
	if asked.ID == "" && asked.Name == "" {
		asked.ID, asked.Version = *present.Id, *present.Version
	}
	ref := at.LaunchTemplateSpecification{LaunchTemplateId: present.Id, Version: aws.String(asked.Version)}
	t, v, err := r.templateVersion(ref)
	if err != nil {
		return revision{}, invalidParameterError("%s", asAPIError(err).Message)
	}
	if custom != (v.data.image != "") {
		return revision{}, invalidParameterError("The AMI type %s of node group %s does not fit version %d of its launch template.", n.shown.AmiType, n.spec.Name, v.number)
	}
	to := revision{template: TemplateRef{ID: t.id, Name: t.name, Version: strconv.Itoa(v.number)}, labels: nodeLabels(v.data.userData)}
	if custom {
		to.version, to.release, to.image = aws.ToString(n.shown.Version), v.data.image, v.data.image
	}
	return to, nil
}

// checkTemplateRequest returns an error if the request names a launch template that the node group cannot use.
func checkTemplateRequest(n *nodegroup, in versionRequest) error {
	present, asked := n.shown.LaunchTemplate, in.LaunchTemplate
	given := asked.ID != "" || asked.Name != ""
	switch {
	case present == nil && given:
		return invalidParameterError("You cannot specify a launch template for node group %s, which was created without one.", n.spec.Name)
	case present == nil:
		return nil
	case given && !isSameTemplate(present, asked):
		return invalidParameterError("You must specify the launch template that node group %s was created with: %s.", n.spec.Name, *present.Id)
	case asked.ID != "" && asked.Name != "":
		return invalidParameterError("You must specify either the launch template ID or the launch template name, but not both.")
	}
	return checkCustomImageRequest(n, in, given)
}

// isSameTemplate reports whether the request names the present launch template, by ID or by name.
func isSameTemplate(present *ekstypes.LaunchTemplateSpecification, asked TemplateRef) bool {
	return (asked.ID == "" || asked.ID == *present.Id) && (asked.Name == "" || asked.Name == *present.Name)
}

// checkCustomImageRequest returns an error if a node group with a custom AMI does not support the request.
func checkCustomImageRequest(n *nodegroup, in versionRequest, templateGiven bool) error {
	switch {
	case n.shown.AmiType != ekstypes.AMITypesCustom:
		return nil
	case !templateGiven:
		return invalidParameterError("Launch template details can't be null for Custom ami type node group")
	case in.Version != "":
		return invalidParameterError("You cannot specify the field kubernetesVersion when using custom AMIs.")
	case in.ReleaseVersion != "":
		return invalidParameterError("You cannot specify the field releaseVersion when using custom AMIs.")
	default:
		return nil
	}
}

// checkVersion returns an error if the Kubernetes version is neither the cluster's nor the node group's own (EKS E10).
func (r *region) checkVersion(n *nodegroup, version string) error {
	own, cluster := aws.ToString(n.shown.Version), aws.ToString(r.clusters[n.spec.Cluster].Version)
	switch {
	case version == "" || version == own:
		return nil
	case version != cluster:
		return invalidParameterError("Nodegroup Kubernetes version should be equal to Cluster kubernetes version %s or NodeGroup kubernetes version %s", cluster, own)
	case minorOf(version) < minorOf(own):
		return invalidParameterError("Node group Kubernetes version %s cannot be rolled back to %s.", own, version)
	case r.opts.EKS.RefuseSkip && minorOf(version) > minorOf(own)+1:
		return invalidParameterError("Node group Kubernetes version %s cannot be updated to %s: only one minor version at a time.", own, version)
	}
	return nil
}
