package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"
	smithy "github.com/aws/smithy-go/middleware"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/deadline"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Provider implements cloud.Provider for the Auto Scaling groups and the EKS managed node groups of one account and region.
type Provider struct {
	region      string
	autoscaling *autoscaling.Client
	ec2         *ec2.Client
	sts         *sts.Client
	policies    policySimulator
	// versions, images and instanceImages cache what AWS reports. seen contains the group in which each instance was last seen.
	versions       cache[versionKey, templateVersion]
	images         cache[string, image]
	instanceImages cache[string, string]
	seen           cache[string, seenInstance]
	// arns contains the ARNs of groups by name. For a managed node group it is the ARN in EKS.
	arns      cache[string, string]
	managed   managedGroups
	balancers balancers
}

var _ cloud.Provider = (*Provider)(nil)

// Options configure a Provider.
type Options struct {
	// Region is used if neither the environment nor the AWS configuration names one. See RegionOf.
	Region string
	// ClusterName is the user's name for the EKS cluster. It is used if two clusters have a node group of the same name and no
	// node shows which cluster is meant. If a node belongs to another cluster, Groups returns cloud.ErrOtherCluster.
	ClusterName string
	// Version is this program's version. The user agent of requests contains it.
	Version string
}

// maxAttempts is the maximum number of times that a request is sent. The SDK's default of 3 is too few, because all tools of an
// account share one rate limit.
const maxAttempts = 8

// maxBackoff is the longest pause between two attempts. Seven pauses take at most half a minute. Only after the last attempt
// does the SDK report the error.
const maxBackoff = 4 * time.Second

// shortError is an error whose text was shortened.
type shortError struct {
	error
	text string
}

// Error implements error.
func (e shortError) Error() string { return e.text }

// Unwrap implements errors.Unwrap.
func (e shortError) Unwrap() error { return e.error }

// shortenCredentialError removes the failed requests of the credential chain from the error's text, and logs them at level 4.
func shortenCredentialError(err error) error {
	text, requests, found := strings.Cut(err.Error(), ", operation error ")
	if !found {
		return err
	}
	klog.V(4).Infof("AWS SDK: %s: operation error %s", text, requests)
	return shortError{error: err, text: text + "; -v 4 shows more"}
}

// New connects to AWS with the SDK's default credential chain. It sends only the requests that the chain needs. The last step
// of the chain asks the EC2 metadata service. Without this service that step takes seconds, so give ctx a deadline. New returns
// an error if the configuration cannot be read, or if there is no region or no credentials.
func New(ctx context.Context, o Options) (*Provider, error) {
	load := []func(*config.LoadOptions) error{
		config.WithDefaultRegion(o.Region),
		config.WithRetryer(newRetryer),
		config.WithHTTPClient(awshttp.NewBuildableClient()), // the SDK's default client, named here so that it can be wrapped
		config.WithAPIOptions([]func(*smithy.Stack) error{
			middleware.AddUserAgentKeyValue("kubectl-nodeupgrade", cmp.Or(o.Version, "devel")),
		}),
		config.WithLogger(logging.LoggerFunc(logSDKMessage)),
		config.WithClientLogMode(sdk.LogRetries),
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("reading the AWS configuration: %w: check AWS_PROFILE and ~/.aws/config", err)
	}
	if cfg.Region == "" {
		return nil, errors.New("connecting to AWS: no region: set AWS_REGION, or region in the profile")
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, fatalError("connecting to AWS: no credentials found (%w): %s", shortenCredentialError(err), remedySignIn+", or use node labels with --provider=manual")
	}
	addCredentialRenewal(&cfg)
	cfg.HTTPClient = deadline.Client(cfg.HTTPClient)
	p := &Provider{
		region: cfg.Region, autoscaling: autoscaling.NewFromConfig(cfg), ec2: ec2.NewFromConfig(cfg), sts: sts.NewFromConfig(cfg),
	}
	p.policies = policySimulator{region: cfg.Region, iam: iam.NewFromConfig(cfg), sts: p.sts}
	p.balancers.elb = elasticloadbalancingv2.NewFromConfig(cfg)
	p.managed = managedGroups{aws: p, eks: eks.NewFromConfig(cfg), parameters: newParameterClient(ctx, &cfg), cache: managedCache{userCluster: o.ClusterName}}
	return p, nil
}

// logSDKMessage writes a message of the SDK to the log of the Kubernetes libraries, at level 1. By default the SDK writes its
// messages to stderr, between the program's own lines.
func logSDKMessage(class logging.Classification, format string, values ...any) {
	klog.V(1).Infof("AWS SDK: %s %s", class, fmt.Sprintf(format, values...))
}

func newRetryer() sdk.Retryer {
	codes := map[string]struct{}{rateExceeded: {}}
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff = maxAttempts, maxBackoff
		o.Retryables = append(o.Retryables, retry.RetryableErrorCode{Codes: codes})
		o.Throttles = append(o.Throttles, retry.ThrottleErrorCode{Codes: codes})
	})
}

// Name implements cloud.Provider.
func (p *Provider) Name() string { return providerName }

// Account implements cloud.Provider. It needs no permission.
func (p *Provider) Account(ctx context.Context) (string, error) {
	out, err := p.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", explainError("asking AWS whose credentials these are", err)
	}
	return fmt.Sprintf("account %s, %s", sdk.ToString(out.Account), p.region), nil
}

// parallelReads is the maximum number of concurrent reads of one kind.
const parallelReads = 4

// forEachParallel calls do for each index below n and returns the first error. At most parallelReads calls run concurrently.
func forEachParallel(n int, do func(i int) error) error {
	var work errgroup.Group
	work.SetLimit(parallelReads)
	for i := range n {
		work.Go(func() error { return do(i) })
	}
	return work.Wait()
}

// Groups implements cloud.Provider. A node that no Auto Scaling group lists belongs to no group. If reading more about one
// group fails, the error becomes the group's Refusal. Groups returns an error only if no group could be read.
func (p *Provider) Groups(ctx context.Context, nodes []*corev1.Node) ([]nodegroup.Group, error) {
	instances, err := instancesIn(p.region, nodes)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	found, err := p.readGroupsOf(ctx, instances)
	if err != nil {
		return nil, err
	}
	if err := p.managed.cache.learnCluster(found); err != nil {
		return nil, err
	}
	groups := make([]nodegroup.Group, len(found))
	err = forEachParallel(len(found), func(i int) error {
		group, err := p.inspectGroup(ctx, &found[i], "", true)
		if err != nil && group.Refusal == "" {
			group.Refusal = err.Error()
		}
		group.Observed = began
		groups[i] = group
		return ctx.Err()
	})
	return groups, err
}

// Observe implements cloud.Provider. The package comment lists its requests. A managed node group can be named by its own name or
// by its Auto Scaling group's name.
func (p *Provider) Observe(ctx context.Context, ref cloud.Ref) (nodegroup.Group, error) {
	began := time.Now()
	asg, err := p.readGroup(ctx, ref.Name, true)
	if err != nil {
		return nodegroup.Group{}, err
	}
	group, err := p.inspectGroup(ctx, asg, ref.To, false)
	group.Observed = began
	return group, err
}

// inspectGroup reads everything else about an Auto Scaling group, for a listing or for an upgrade, and describes the group. If
// a read fails, the returned group contains only what the Auto Scaling group itself shows.
func (p *Provider) inspectGroup(ctx context.Context, asg *at.AutoScalingGroup, to string, listing bool) (nodegroup.Group, error) {
	if _, managed := managedNameOf(asg); managed {
		return p.managed.inspectNodegroup(ctx, asg, to, listing)
	}
	group := describeGroup(asg)
	group.Instances = describeInstances(asg, func(at.Instance) (own nodegroup.Revision, outdated bool, why string) { return })
	p.rememberInstances(asg, &group) // so that the group's nodes are known even if a later read fails
	p.arns.add(map[string]string{group.Name: sdk.ToString(asg.AutoScalingGroupARN)})
	f, err := p.readGroupFacts(ctx, asg, to)
	if no, refused := errors.AsType[refusedError](err); refused {
		group.Refusal, group.AbsentTarget = cmp.Or(refusalReason(asg, nil, ""), string(no)), to != "" && isAbsent(err)
		return group, nil
	}
	if err != nil {
		return group, err
	}
	addGroupFacts(&group, asg, &f)
	p.rememberInstances(asg, &group)
	return group, nil
}

// readGroupFacts reads everything that is needed to judge the group's instances. It returns a refusedError if the group cannot
// move to the target.
func (p *Provider) readGroupFacts(ctx context.Context, asg *at.AutoScalingGroup, to string) (groupFacts, error) {
	var f groupFacts
	wish, err := parseTarget(to)
	if err != nil {
		return f, err
	}
	if err := p.readLaunchSources(ctx, asg, wish, &f); err != nil {
		return f, err
	}
	if f.instanceImages, err = p.readInstanceImages(ctx, f.instancesWithUnknownImage(asg)); err != nil {
		return f, err
	}
	if err := p.checkTargetImage(ctx, asg, wish, &f); err != nil {
		return f, err
	}
	name := sdk.ToString(asg.AutoScalingGroupName)
	if f.refresh, err = p.readRefreshStatus(ctx, name); err != nil {
		return f, err
	}
	if lacksInstances(asg) {
		f.failure, err = p.readNewestLaunchFailure(ctx, name)
	}
	return f, err
}

// readLaunchSources reads what the group launches from (pointed) and what it should launch from (wanted), with template names
// and images.
func (p *Provider) readLaunchSources(ctx context.Context, asg *at.AutoScalingGroup, wish target, f *groupFacts) error {
	written, err := launchSourceOf(asg)
	if err != nil {
		return err
	}
	templates, err := p.readTemplates(ctx, written.templatesByAlias(wish))
	if err != nil {
		return err
	}
	if f.pointed, err = written.resolveVersions(templates); err != nil {
		return err
	}
	if f.wanted, err = f.pointed.withTarget(wish, templates); err != nil {
		return err
	}
	f.pointed.imageOnly = f.wanted.imageOnly
	named, err := p.readVersions(ctx, f.templateVersions())
	if err != nil {
		return err
	}
	resolved, err := p.resolveAliases(ctx, named)
	if err == nil {
		f.fillImages(named, resolved)
	}
	return err
}

// checkTargetImage reads the images of the sources. If the target is an AMI, it also checks that the AMI fits the group.
// Otherwise the images only show the Kubernetes version, and a failed read is not an error.
func (p *Provider) checkTargetImage(ctx context.Context, asg *at.AutoScalingGroup, wish target, f *groupFacts) error {
	from, to := f.pointed.base.image, f.wanted.base.image
	images, err := p.readImages(ctx, []string{from, to})
	f.images = images
	switch {
	case wish.image == "" || from == to:
		f.unread = unknownBecause(unknownKubernetes, err)
		return ctx.Err()
	case err != nil:
		return err
	}
	f.absent = images[to].id == ""
	if f.problem = imageIncompatibility(images[from], images[to], to); f.problem == "" {
		f.problem, err = p.sharedTemplateProblem(ctx, sdk.ToString(asg.AutoScalingGroupName), f.pointed.base)
	}
	return err
}

// sharedTemplateProblem returns why no version may be added to the group's template, "" if it may. The reason is another group
// that would launch from the new version immediately.
func (p *Provider) sharedTemplateProblem(ctx context.Context, asg string, base launch) (string, error) {
	other, err := p.findOtherGroupUsing(ctx, asg, base.template)
	if err != nil || other == "" {
		return "", err
	}
	return fmt.Sprintf("Auto Scaling group %s also launches from the newest version of template %s, so the version that --to adds would change that group too: set that group to a numbered template version first",
		other, cmp.Or(base.name, base.template)), nil
}

// rememberInstances remembers the group's instances, because a node can exist longer than its machine. It forgets detached
// instances, because their nodes no longer belong to the group.
func (p *Provider) rememberInstances(asg *at.AutoScalingGroup, group *nodegroup.Group) {
	seen := map[string]seenInstance{}
	for _, i := range group.Instances {
		seen[i.ID] = seenInstance{group: group.Name, outdated: i.Outdated}
	}
	for _, i := range asg.Instances {
		if i.LifecycleState == at.LifecycleStateDetaching || i.LifecycleState == at.LifecycleStateDetached {
			seen[sdk.ToString(i.InstanceId)] = seenInstance{}
		}
	}
	p.seen.add(seen)
}

func (p *Provider) lastSeen(node *corev1.Node) seenInstance {
	_, instance, _ := ParseProviderID(node.Spec.ProviderID)
	return p.seen.get(instance)
}

// Belongs implements cloud.Provider: the node's instance was in the group when Groups or Observe last saw it.
func (p *Provider) Belongs(group *nodegroup.Group, node *corev1.Node) bool {
	return p.lastSeen(node).group == group.Name
}

// Outdated implements cloud.Provider. It uses the image label of nodes of a managed node group. A node without that label is
// outdated if its machine was outdated when it was last seen, or if the machine was never seen.
func (p *Provider) Outdated(group *nodegroup.Group, node *corev1.Node) bool {
	if outdated, ok := judgeByLabel(group, node); ok {
		return outdated
	}
	seen := p.lastSeen(node)
	return seen == seenInstance{} || seen.outdated
}
