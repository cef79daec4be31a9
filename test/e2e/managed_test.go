package e2e

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/stage"
)

// eksClient is what anyone else uses who has EKS change node groups.
func eksClient(s *stage.Stage) *eks.Client {
	return eks.New(eks.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(s.Cloud.URL()), Credentials: credentials.NewStaticCredentialsProvider("AKID", "secret", ""),
	})
}
