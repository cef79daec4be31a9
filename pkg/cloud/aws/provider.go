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

// Provider is cloud.Provider for the Auto Scaling groups of one account and region, and for the EKS
// managed node groups behind some of them.
type Provider struct {
	region      string
	autoscaling *autoscaling.Client
	ec2         *ec2.Client
	sts         *sts.Client
	policies    policySimulator
	// versions, images and instanceImages need not be asked again; seen is where instances were.
	versions       memory[versionKey, templateVersion]
	images         memory[string, image]
	instanceImages memory[string, string]
	seen           memory[string, seenInstance]
	// arns are the ARNs of groups by name; for a managed node group it is that of EKS.
	arns      memory[string, string]
	managed   managedGroups
	balancers balancers
}

var _ cloud.Provider = (*Provider)(nil)

// Options configure a Provider.
type Options struct {
	// Region counts when neither the environment nor the AWS configuration names one. See RegionOf.
	Region string
	// ClusterName is the EKS cluster whose node groups are meant, where two clusters have one of a
	// name and Groups was given no node that tells. Where one tells otherwise Groups returns
	// cloud.ErrOtherCluster.
	ClusterName string
	// Version is this program's, for the user agent.
	Version string
}

// maxAttempts is how often a request is sent at most. The SDK's own 3 are few for a bucket that all
// tools of an account share.
const maxAttempts = 8

// maxBackoff is the longest pause between them, which the SDK keeps to itself: seven of them take no
// more than half a minute, and then the reason is told.
const maxBackoff = 4 * time.Second

// briefError is an error with a shorter text.
type briefError struct {
	error
	text string
}

// Error implements error.
func (e briefError) Error() string { return e.text }

// Unwrap implements errors.Unwrap.
func (e briefError) Unwrap() error { return e.error }

// logCredentialError logs at level 4 the requests that a chain of credentials sent in vain, and returns the error without them.
func logCredentialError(err error) error {
	text, requests, found := strings.Cut(err.Error(), ", operation error ")
	if !found {
		return err
	}
	klog.V(4).Infof("AWS SDK: %s: operation error %s", text, requests)
	return briefError{error: err, text: text + "; -v 4 shows more"}
}

// New connects to AWS with the SDK's default credential chain. It sends no request to a
// service of AWS other than those the chain needs; the last link of the chain asks the EC2
// metadata service and takes seconds where there is none, so give ctx a deadline. Its errors,
// each one line with the remedy: the configuration cannot be read, no region, no credentials.
func New(ctx context.Context, o Options) (*Provider, error) {
	load := []func(*config.LoadOptions) error{
		config.WithDefaultRegion(o.Region),
		config.WithRetryer(newRetryer),
		config.WithHTTPClient(awshttp.NewBuildableClient()), // the default, which is there to be wrapped
		config.WithAPIOptions([]func(*smithy.Stack) error{
			middleware.AddUserAgentKeyValue("kubectl-nodeupgrade", cmp.Or(o.Version, "devel")),
		}),
		config.WithLogger(logging.LoggerFunc(logMessage)),
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
		return nil, fatalError("connecting to AWS: no credentials found (%w): %s", logCredentialError(err), remedySignIn+", or go by labels with --provider=manual")
	}
	addCredentialRenewal(&cfg)
	cfg.HTTPClient = deadline.Client(cfg.HTTPClient)
	p := &Provider{
		region: cfg.Region, autoscaling: autoscaling.NewFromConfig(cfg), ec2: ec2.NewFromConfig(cfg), sts: sts.NewFromConfig(cfg),
	}
	p.policies = policySimulator{region: cfg.Region, iam: iam.NewFromConfig(cfg), sts: p.sts}
	p.balancers.elb = elasticloadbalancingv2.NewFromConfig(cfg)
	p.managed = managedGroups{aws: p, eks: eks.NewFromConfig(cfg), ssm: ssm.NewFromConfig(cfg), memory: managedMemory{named: o.ClusterName}}
	return p, nil
}

// logMessage sends what the SDK has to say where the Kubernetes libraries' logs go, from level 1
// on. Left to itself the SDK writes to stderr, between the lines that the user asked for.
func logMessage(class logging.Classification, format string, values ...any) {
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

// parallelReads is how many of one kind are looked at at once.
const parallelReads = 4

// forEachAtOnce calls do for each index below n, some at once, and returns the first error.
func forEachAtOnce(n int, do func(i int) error) error {
	var work errgroup.Group
	work.SetLimit(parallelReads)
	for i := range n {
		work.Go(func() error { return do(i) })
	}
	return work.Wait()
}

// Groups implements cloud.Provider. Nodes that no Auto Scaling group lists belong to no
// group here. A group that cannot be judged carries the reason as its Refusal; errors are
// for what keeps all groups from being read.
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
	if err := p.managed.memory.learnCluster(found); err != nil {
		return nil, err
	}
	groups := make([]nodegroup.Group, len(found))
	err = forEachAtOnce(len(found), func(i int) error {
		group, err := p.judgeGroup(ctx, &found[i], "", true)
		if err != nil && group.Refusal == "" {
			group.Refusal = err.Error()
		}
		group.Observed = began
		groups[i] = group
		return ctx.Err()
	})
	return groups, err
}

// Observe implements cloud.Provider. The package comment says how many requests it sends.
// A managed node group goes by its own name or by that of its Auto Scaling group.
func (p *Provider) Observe(ctx context.Context, ref cloud.Ref) (nodegroup.Group, error) {
	began := time.Now()
	asg, err := p.readGroup(ctx, ref.Name, true)
	if err != nil {
		return nodegroup.Group{}, err
	}
	group, err := p.judgeGroup(ctx, asg, ref.To, false)
	group.Observed = began
	return group, err
}

// judgeGroup judges a group that was read, to be listed or to be upgraded. With an error the group
// is as describeGroup has it.
func (p *Provider) judgeGroup(ctx context.Context, asg *at.AutoScalingGroup, to string, listing bool) (nodegroup.Group, error) {
	if _, managed := managedNameOf(asg); managed {
		return p.managed.judgeManaged(ctx, asg, to, listing)
	}
	group := describeGroup(asg)
	group.Instances = describeInstances(asg, func(at.Instance) (own nodegroup.Revision, outdated bool, why string) { return })
	p.rememberInstances(asg, &group) // its nodes are known, whatever else cannot be read
	p.arns.keep(map[string]string{group.Name: sdk.ToString(asg.AutoScalingGroupARN)})
	f, err := p.readFacts(ctx, asg, to)
	if no, refused := errors.AsType[refusedError](err); refused {
		group.Refusal, group.AbsentTarget = cmp.Or(refusalReason(asg, nil, ""), string(no)), to != "" && isAbsent(err)
		return group, nil
	}
	if err != nil {
		return group, err
	}
	addFacts(&group, asg, &f)
	p.rememberInstances(asg, &group)
	return group, nil
}

// readFacts asks AWS for everything that judging the group takes. It returns a refusedError when
// the group, its template or the target cannot be judged at all.
func (p *Provider) readFacts(ctx context.Context, asg *at.AutoScalingGroup, to string) (groupFacts, error) {
	var f groupFacts
	wish, err := parseTarget(to)
	if err != nil {
		return f, err
	}
	if err := p.readSources(ctx, asg, wish, &f); err != nil {
		return f, err
	}
	if f.instanceImages, err = p.machineImages(ctx, f.unknownImages(asg)); err != nil {
		return f, err
	}
	if err := p.judgeTarget(ctx, asg, wish, &f); err != nil {
		return f, err
	}
	name := sdk.ToString(asg.AutoScalingGroupName)
	if f.refresh, err = p.refreshStatus(ctx, name); err != nil {
		return f, err
	}
	if lacksInstances(asg) {
		f.failure, err = p.newestFailure(ctx, name)
	}
	return f, err
}

// readSources finds out what the group launches from and what it is to launch from, with template
// names and images.
func (p *Provider) readSources(ctx context.Context, asg *at.AutoScalingGroup, wish target, f *groupFacts) error {
	written, err := launchSourceOf(asg)
	if err != nil {
		return err
	}
	templates, err := p.readTemplates(ctx, written.movingTemplates(wish))
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

// judgeTarget describes the images of the sources and checks that an AMI that was asked for
// fits the group. Without such a target images are described for the Kubernetes version
// alone, which may stay unknown.
func (p *Provider) judgeTarget(ctx context.Context, asg *at.AutoScalingGroup, wish target, f *groupFacts) error {
	from, to := f.pointed.base.image, f.wanted.base.image
	images, err := p.describeImages(ctx, []string{from, to})
	f.images = images
	switch {
	case wish.image == "" || from == to:
		f.unread = describeUnread(unknownKubernetes, err)
		return ctx.Err()
	case err != nil:
		return err
	}
	f.absent = images[to].id == ""
	if f.problem = incompatibleImage(images[from], images[to], to); f.problem == "" {
		f.problem, err = p.sharedTemplateProblem(ctx, sdk.ToString(asg.AutoScalingGroupName), f.pointed.base)
	}
	return err
}

// sharedTemplateProblem says why no version may be added to a group's template: another group would
// launch from it at once.
func (p *Provider) sharedTemplateProblem(ctx context.Context, asg string, base launch) (string, error) {
	other, err := p.otherGroupUsing(ctx, asg, base.template)
	if err != nil || other == "" {
		return "", err
	}
	return fmt.Sprintf("Auto Scaling group %s launches from the newest version of template %s too, and would launch from the version that --to adds: point it at a number first",
		other, cmp.Or(base.name, base.template)), nil
}

// rememberInstances keeps where instances were seen, for nodes that outlive their machine. Detached
// instances are forgotten: their node continues without the group.
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
	p.seen.keep(seen)
}

func (p *Provider) lastSeen(node *corev1.Node) seenInstance {
	_, instance, _ := ParseProviderID(node.Spec.ProviderID)
	return p.seen.recall(instance)
}

// Belongs implements cloud.Provider: the node's instance is in the group, or was when Groups or
// Observe saw it last.
func (p *Provider) Belongs(group *nodegroup.Group, node *corev1.Node) bool {
	return p.lastSeen(node).group == group.Name
}

// Outdated implements cloud.Provider: a node whose machine is gone is what it was when it was seen
// last. One that was never seen is outdated. Nodes of a managed node group say it themselves.
func (p *Provider) Outdated(group *nodegroup.Group, node *corev1.Node) bool {
	if outdated, ok := judgeByLabel(group, node); ok {
		return outdated
	}
	seen := p.lastSeen(node)
	return seen == seenInstance{} || seen.outdated
}
