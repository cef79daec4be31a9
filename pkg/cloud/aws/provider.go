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
	"github.com/aws/aws-sdk-go-v2/service/ssm"
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

// Provider implements cloud.Provider for the Auto Scaling groups of one account and region, and for the EKS managed node groups
// that own some of them.
type Provider struct {
	region      string
	autoscaling *autoscaling.Client
	ec2         *ec2.Client
	sts         *sts.Client
	policies    policySimulator
	// versions, images and instanceImages are caches. seen is where instances were last seen.
	versions       cache[versionKey, templateVersion]
	images         cache[string, image]
	instanceImages cache[string, string]
	seen           cache[string, seenInstance]
	// arns are the ARNs of groups by name. A managed node group has the ARN of EKS.
	arns      cache[string, string]
	managed   managedGroups
	balancers balancers
}

var _ cloud.Provider = (*Provider)(nil)

// Options configure a Provider.
type Options struct {
	// Region is used if neither the environment nor the AWS configuration names one. See RegionOf.
	Region string
	// ClusterName is the user's name for the EKS cluster. It decides if two clusters have a node group of the same name and
	// Groups got no node that shows the cluster. If a node belongs to another cluster, Groups returns cloud.ErrOtherCluster.
	ClusterName string
	// Version is this program's version for the user agent.
	Version string
}

// maxAttempts is the maximum number of times that a request is sent. The SDK's default of 3 is too few, because all tools of an
// account share one rate limit.
const maxAttempts = 8

// maxBackoff is the longest pause between two attempts. Seven pauses take at most half a minute, and then the user sees the
// reason. The SDK does not report it earlier.
const maxBackoff = 4 * time.Second

// shortError is an error with a shorter text.
type shortError struct {
	error
	text string
}

// Error implements error.
func (e shortError) Error() string { return e.text }

// Unwrap implements errors.Unwrap.
func (e shortError) Unwrap() error { return e.error }

// shortenCredentialError logs at level 4 the failed requests of a chain of credentials, and returns the error without them.
func shortenCredentialError(err error) error {
	text, requests, found := strings.Cut(err.Error(), ", operation error ")
	if !found {
		return err
	}
	klog.V(4).Infof("AWS SDK: %s: operation error %s", text, requests)
	return shortError{error: err, text: text + "; -v 4 shows more"}
}

// New connects to AWS with the SDK's default credential chain. It sends only the requests that the chain needs. The last link of
// the chain asks the EC2 metadata service and takes seconds where there is none, so give ctx a deadline. New returns an error, in
// one line with the remedy, if the configuration cannot be read, or if there is no region or no credentials.
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
	p.managed = managedGroups{aws: p, eks: eks.NewFromConfig(cfg), ssm: ssm.NewFromConfig(cfg), cache: managedCache{userCluster: o.ClusterName}}
	return p, nil
}

// logSDKMessage sends the SDK's messages to the log of the Kubernetes libraries, from level 1 on. By default the SDK writes to
// stderr, between the lines that the user asked for.
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

// Account implements cloud.Provider; it needs no permission.
func (p *Provider) Account(ctx context.Context) (string, error) {
	out, err := p.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", explainError("asking AWS whose credentials these are", err)
	}
	return fmt.Sprintf("account %s, %s", sdk.ToString(out.Account), p.region), nil
}

// parallelReads is how many reads of one kind run concurrently.
const parallelReads = 4

// forEachParallel calls do for each index below n, some of them concurrently, and returns the first error.
func forEachParallel(n int, do func(i int) error) error {
	var work errgroup.Group
	work.SetLimit(parallelReads)
	for i := range n {
		work.Go(func() error { return do(i) })
	}
	return work.Wait()
}

// Groups implements cloud.Provider. A node that no Auto Scaling group lists belongs to no group. If one group cannot be judged,
// its Refusal is the reason. Groups returns an error only if no group could be read.
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

// inspectGroup describes a group that was already read, for a listing or for an upgrade. With an error it returns the group as
// describeGroup does.
func (p *Provider) inspectGroup(ctx context.Context, asg *at.AutoScalingGroup, to string, listing bool) (nodegroup.Group, error) {
	if _, managed := managedNameOf(asg); managed {
		return p.managed.inspectNodegroup(ctx, asg, to, listing)
	}
	group := describeGroup(asg)
	group.Instances = describeInstances(asg, func(at.Instance) (own nodegroup.Revision, outdated bool, why string) { return })
	p.rememberInstances(asg, &group) // even if a later read fails, the group's nodes are known
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

// readGroupFacts reads everything that is needed to judge the group. It returns a refusedError if the group, its template or the
// target makes that impossible.
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

// readLaunchSources reads what the group launches from and what it should launch from, with template names and images.
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

// checkTargetImage describes the images of the sources. If the target is an AMI, it checks that the AMI fits the group. Otherwise the
// images are needed only for the Kubernetes version, which may stay unknown.
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

// sharedTemplateProblem returns why no version may be added to a group's template: another group would launch from it
// immediately.
func (p *Provider) sharedTemplateProblem(ctx context.Context, asg string, base launch) (string, error) {
	other, err := p.findOtherGroupUsing(ctx, asg, base.template)
	if err != nil || other == "" {
		return "", err
	}
	return fmt.Sprintf("Auto Scaling group %s also launches from the newest version of template %s, so the version that --to adds would change that group too: set that group to a numbered template version first",
		other, cmp.Or(base.name, base.template)), nil
}

// rememberInstances remembers the instances of the group, for nodes that exist longer than their machine. Detached instances are
// forgotten, because their nodes no longer belong to the group.
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

// Outdated implements cloud.Provider. A node whose machine is gone keeps its last verdict. A node that was never seen is
// outdated. Nodes of a managed node group are judged by their label.
func (p *Provider) Outdated(group *nodegroup.Group, node *corev1.Node) bool {
	if outdated, ok := judgeByLabel(group, node); ok {
		return outdated
	}
	seen := p.lastSeen(node)
	return seen == seenInstance{} || seen.outdated
}
