package awscloud

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

func stsOperations() map[string]operation {
	return map[string]operation{"GetCallerIdentity": reading((*region).getCallerIdentity)}
}

func (r *region) getCallerIdentity(*sts.GetCallerIdentityInput) (*sts.GetCallerIdentityOutput, error) {
	return &sts.GetCallerIdentityOutput{
		Account: aws.String(r.opts.Account),
		Arn:     aws.String("arn:aws:iam::" + r.opts.Account + ":user/upgrader"),
		UserId:  aws.String("AIDACKCEVSQ6C2EXAMPLE"),
	}, nil
}
