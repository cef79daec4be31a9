package awscloud

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// PublishRelease registers an AMI of Amazon Linux 2023 as an EKS release such as 1.33.4-20261101. It becomes the recommended
// release of its Kubernetes version: public SSM parameters show it, and updates without a release use it. The kubelet of the
// AMI has the version of the release. PublishRelease fails if the release has another form.
func (c *Cloud) PublishRelease(release, image string) error {
	version, date, ok := splitRelease(release)
	if !ok {
		return fmt.Errorf("publishing release %q: write it as EKS does, 1.33.4-20261101", release)
	}
	c.AddImage(image, "v"+strings.TrimSuffix(release, "-"+date), "x86_64")
	name := "amazon-eks-node-al2023-x86_64-standard-" + version + "-v" + date
	path := "/aws/service/eks/optimized-ami/" + version + "/amazon-linux-2023/x86_64/standard/"
	for _, folder := range []string{path + "recommended", path + name} {
		c.AddParameter(folder+"/image_id", image)
		c.AddParameter(folder+"/image_name", name)
		c.AddParameter(folder+"/release_version", release)
		c.AddParameter(folder, fmt.Sprintf(`{"schema_version":"2","image_id":%q,"image_name":%q,"release_version":%q}`, image, name, release))
	}
	return c.home.update(func(time.Time) error {
		c.home.releases[release], c.home.recommended[version] = image, release
		return nil
	})
}

// splitRelease splits 1.33.4-20261101 into the Kubernetes version 1.33 and the date.
func splitRelease(release string) (version, date string, ok bool) {
	full, date, ok := strings.Cut(release, "-")
	parts := strings.Split(full, ".")
	if !ok || date == "" || len(parts) != 3 {
		return "", "", false
	}
	return parts[0] + "." + parts[1], date, true
}

// minorOf returns the minor version of 1.33 or 1.33.4-20261101, and 0 for other text.
func minorOf(version string) int {
	parts := strings.Split(version, ".")
	if len(parts) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(parts[1])
	return n
}

// compareReleases orders the releases of one Kubernetes version by patch and date.
func compareReleases(a, b string) int {
	patch := func(release string) int {
		full, _, _ := strings.Cut(release, "-")
		n, _ := strconv.Atoi(full[strings.LastIndex(full, ".")+1:])
		return n
	}
	_, dateA, _ := splitRelease(a)
	_, dateB, _ := splitRelease(b)
	return cmp.Or(cmp.Compare(patch(a), patch(b)), cmp.Compare(dateA, dateB))
}
