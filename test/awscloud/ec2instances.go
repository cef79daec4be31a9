package awscloud

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

type ec2State struct {
	Code int    `xml:"code"`
	Name string `xml:"name"`
}

type ec2Instance struct {
	InstanceID       string   `xml:"instanceId"`
	ImageID          string   `xml:"imageId"`
	State            ec2State `xml:"instanceState"`
	PrivateDNSName   string   `xml:"privateDnsName"`
	PrivateIPAddress string   `xml:"privateIpAddress"`
	InstanceType     string   `xml:"instanceType"`
	LaunchTime       string   `xml:"launchTime"`
	Zone             string   `xml:"placement>availabilityZone"`
	ZoneID           string   `xml:"placement>availabilityZoneId"`
	SubnetID         string   `xml:"subnetId"`
	Architecture     string   `xml:"architecture"`
	Lifecycle        string   `xml:"instanceLifecycle,omitempty"`
	Tags             []tag    `xml:"tagSet>item"`
}

type ec2Reservation struct {
	ReservationID string        `xml:"reservationId"`
	OwnerID       string        `xml:"ownerId"`
	Instances     []ec2Instance `xml:"instancesSet>item"`
}

type ec2Reservations struct {
	XMLName      struct{}         `xml:"reservationSet"`
	Reservations []ec2Reservation `xml:"item"`
}

// powerState returns the EC2 state, with its code and name, for a power.
func powerState(p power) ec2State {
	switch p {
	case powerPending:
		return ec2State{0, "pending"}
	case powerRunning:
		return ec2State{16, "running"}
	case powerShuttingDown:
		return ec2State{32, "shutting-down"}
	default:
		return ec2State{48, "terminated"}
	}
}

// instanceID matches a valid instance id, in the long or the old short form.
var instanceID = regexp.MustCompile(`^i-([0-9a-f]{8}|[0-9a-f]{17})$`)

func (r *region) describeInstances(form ec2Form, now time.Time) (ec2Answer, error) {
	ids := form.list("InstanceId")
	if len(ids) > 0 && form["MaxResults"] != "" {
		return ec2Answer{}, clientError("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	visible := r.visibleInstances(now)
	if err := checkInstanceIDs(ids, visible); err != nil {
		return ec2Answer{}, err
	}
	out := []ec2Reservation{}
	for _, i := range visible {
		if !isEmptyOrContains(ids, i.InstanceID) {
			continue
		}
		ok, err := matchesFilters(form.filters(), i.attributes(), i.tags())
		if err != nil {
			return ec2Answer{}, err
		}
		if ok {
			out = append(out, ec2Reservation{ReservationID: "r-" + strings.TrimPrefix(i.InstanceID, "i-"), OwnerID: r.opts.Account, Instances: []ec2Instance{i}})
		}
	}
	out, next, err := ec2Page(out, form, 5, 1000)
	return ec2Answer{Content: ec2Reservations{Reservations: out}, NextToken: next}, err
}

// visibleInstances lists the instances that EC2 shows. New instances are hidden for Options.NewInstanceHidden.
func (r *region) visibleInstances(now time.Time) []ec2Instance {
	var out []ec2Instance
	for _, i := range r.laggedView().instances {
		if now.Sub(i.launched) >= r.opts.NewInstanceHidden {
			out = append(out, r.describeInstance(i))
		}
	}
	return out
}

func checkInstanceIDs(ids []string, visible []ec2Instance) error {
	known := map[string]bool{}
	for _, i := range visible {
		known[i.InstanceID] = true
	}
	var missing []string
	for _, id := range ids {
		if !instanceID.MatchString(id) {
			return clientError("InvalidInstanceID.Malformed", "Invalid id: \"%s\"", id)
		}
		if !known[id] {
			missing = append(missing, id)
		}
	}
	switch len(missing) {
	case 0:
		return nil
	case 1:
		return clientError("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", missing[0])
	}
	return clientError("InvalidInstanceID.NotFound", "The instance IDs '%s' do not exist", strings.Join(missing, ", "))
}

// describeInstance returns an instance as EC2 shows it, with the tags that its group sets.
func (r *region) describeInstance(i instance) ec2Instance {
	tags := map[string]string{"aws:autoscaling:groupName": i.group}
	if g := r.groups[i.group]; g != nil {
		maps.Copy(tags, g.spec.Tags)
	}
	if i.spec.config == "" {
		tags["aws:ec2launchtemplate:id"] = aws.ToString(i.spec.template.LaunchTemplateId)
		tags["aws:ec2launchtemplate:version"] = aws.ToString(i.spec.template.Version)
	}
	out := ec2Instance{
		InstanceID: i.id, ImageID: i.spec.image, State: powerState(i.power),
		PrivateDNSName: i.node, PrivateIPAddress: i.address, InstanceType: i.spec.kind,
		LaunchTime: i.launched.UTC().Format(queryTime), Zone: i.zone, ZoneID: zoneID(i.zone), SubnetID: i.subnet,
		Architecture: r.images[i.spec.image].arch,
	}
	if i.spec.spot {
		out.Lifecycle = "spot"
	}
	for _, k := range sortedKeys(tags) {
		out.Tags = append(out.Tags, tag{k, tags[k]})
	}
	return out
}

// attributes returns the values that filters can match, by the name of the filter.
func (i ec2Instance) attributes() map[string]string {
	return map[string]string{
		"instance-id": i.InstanceID, "image-id": i.ImageID, "instance-state-name": i.State.Name,
		"instance-type": i.InstanceType, "availability-zone": i.Zone, "private-dns-name": i.PrivateDNSName,
		"private-ip-address": i.PrivateIPAddress, "subnet-id": i.SubnetID, "architecture": i.Architecture,
	}
}

func (i ec2Instance) tags() map[string]string {
	out := map[string]string{}
	for _, t := range i.Tags {
		out[t.Key] = t.Value
	}
	return out
}

type ec2Image struct {
	ImageID      string `xml:"imageId"`
	Name         string `xml:"name"`
	OwnerID      string `xml:"imageOwnerId"`
	OwnerAlias   string `xml:"imageOwnerAlias"`
	State        string `xml:"imageState"`
	Architecture string `xml:"architecture"`
	CreationDate string `xml:"creationDate"`
	Type         string `xml:"imageType"`
	Platform     string `xml:"platformDetails"`
	Public       bool   `xml:"isPublic"`
}

type ec2Images struct {
	XMLName struct{}   `xml:"imagesSet"`
	Images  []ec2Image `xml:"item"`
}

func (r *region) describeImages(form ec2Form, _ time.Time) (ec2Answer, error) {
	ids, owners := form.list("ImageId"), form.list("Owner")
	for _, id := range ids {
		if _, ok := r.images[id]; !ok {
			return ec2Answer{}, clientError("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
		}
	}
	out := []ec2Image{}
	for _, id := range sortedKeys(r.images) {
		i := describeImage(r.images[id])
		if !isEmptyOrContains(ids, id) || !isEmptyOrContains(owners, i.OwnerID) && !slices.Contains(owners, i.OwnerAlias) {
			continue
		}
		ok, err := matchesFilters(form.filters(), map[string]string{
			"image-id": i.ImageID, "name": i.Name, "architecture": i.Architecture, "state": i.State, "owner-alias": i.OwnerAlias,
		}, nil)
		if err != nil {
			return ec2Answer{}, err
		}
		if ok {
			out = append(out, i)
		}
	}
	out, next, err := ec2Page(out, form, 1, 1000)
	return ec2Answer{Content: ec2Images{Images: out}, NextToken: next}, err
}

// describeImage returns an image as EC2 shows an EKS optimized AMI, whose name contains the Kubernetes version.
func describeImage(i image) ec2Image {
	version := strings.Split(strings.TrimPrefix(i.kubelet, "v"), ".")
	return ec2Image{
		ImageID: i.id, OwnerID: "602401143452", OwnerAlias: "amazon", State: "available", Architecture: i.arch, Type: "machine", Platform: "Linux/UNIX",
		Name:         "amazon-eks-node-al2023-" + i.arch + "-standard-" + strings.Join(version[:min(2, len(version))], ".") + "-" + i.id,
		CreationDate: i.created.UTC().Format(queryTime), Public: true,
	}
}
