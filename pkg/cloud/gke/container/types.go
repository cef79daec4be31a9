package container

// Cluster is a GKE cluster.
type Cluster struct {
	Name string `json:"name"`
	// Location is a zone or a region.
	Location string `json:"location"`
	// Endpoint is the IP address of the control plane.
	Endpoint string        `json:"endpoint"`
	Status   ClusterStatus `json:"status"`
	// CurrentMasterVersion is the version of the control plane: "1.34.1-gke.1234000".
	CurrentMasterVersion string             `json:"currentMasterVersion"`
	Autopilot            *Autopilot         `json:"autopilot"`
	MaintenancePolicy    *MaintenancePolicy `json:"maintenancePolicy"`
	ReleaseChannel       *ReleaseChannel    `json:"releaseChannel"`
	NodePools            []NodePool         `json:"nodePools"`
	Conditions           []StatusCondition  `json:"conditions"`
}

// ClusterStatus is the status of a cluster.
type ClusterStatus string

// Known values of ClusterStatus.
const (
	ClusterProvisioning ClusterStatus = "PROVISIONING"
	ClusterRunning      ClusterStatus = "RUNNING"
	ClusterReconciling  ClusterStatus = "RECONCILING"
	ClusterStopping     ClusterStatus = "STOPPING"
	ClusterError        ClusterStatus = "ERROR"
	ClusterDegraded     ClusterStatus = "DEGRADED"
)

// Autopilot reports whether GKE manages all nodes of a cluster. Node pools of such a cluster cannot be upgraded by users.
type Autopilot struct {
	Enabled bool `json:"enabled"`
}

// ReleaseChannel is the channel from which a cluster gets its versions.
type ReleaseChannel struct {
	Channel Channel `json:"channel"`
}

// Channel is the name of a release channel.
type Channel string

// Known values of Channel.
const (
	ChannelUnspecified Channel = "UNSPECIFIED"
	ChannelRapid       Channel = "RAPID"
	ChannelRegular     Channel = "REGULAR"
	ChannelStable      Channel = "STABLE"
	ChannelExtended    Channel = "EXTENDED"
)

// MaintenancePolicy limits when GKE upgrades a cluster by itself.
type MaintenancePolicy struct {
	Window *MaintenanceWindow `json:"window"`
}

// MaintenanceWindow lists the times of automatic maintenance. Without any window, maintenance may begin at any time.
type MaintenanceWindow struct {
	DailyMaintenanceWindow     *DailyMaintenanceWindow     `json:"dailyMaintenanceWindow"`
	RecurringWindow            *RecurringTimeWindow        `json:"recurringWindow"`
	RecurringMaintenanceWindow *RecurringMaintenanceWindow `json:"recurringMaintenanceWindow"`
	// MaintenanceExclusions are times without maintenance, by the name that the user gave them.
	MaintenanceExclusions map[string]TimeWindow `json:"maintenanceExclusions"`
}

// DailyMaintenanceWindow is a window of each day.
type DailyMaintenanceWindow struct {
	// StartTime is a time of day in UTC: "03:00".
	StartTime string `json:"startTime"`
	// Duration is in ISO 8601: "PT4H0M0S".
	Duration string `json:"duration"`
}

// RecurringTimeWindow is a window that recurs by a rule.
type RecurringTimeWindow struct {
	// Recurrence is an RRULE of RFC 5545: "FREQ=WEEKLY;BYDAY=SA,SU".
	Recurrence string `json:"recurrence"`
	// Window is the first window.
	Window *TimeWindow `json:"window"`
}

// RecurringMaintenanceWindow is the newer form of RecurringTimeWindow.
type RecurringMaintenanceWindow struct {
	// Recurrence is an RRULE of RFC 5545.
	Recurrence      string     `json:"recurrence"`
	WindowDuration  *Duration  `json:"windowDuration"`
	WindowStartTime *TimeOfDay `json:"windowStartTime"`
}

// TimeOfDay is a time of day in UTC.
type TimeOfDay struct {
	Hours   int32 `json:"hours"`
	Minutes int32 `json:"minutes"`
}

// TimeWindow is a time with a start and an end.
type TimeWindow struct {
	StartTime Time `json:"startTime"`
	EndTime   Time `json:"endTime"`
	// MaintenanceExclusionOptions is only set for exclusions.
	MaintenanceExclusionOptions *MaintenanceExclusionOptions `json:"maintenanceExclusionOptions"`
}

// MaintenanceExclusionOptions lists what an exclusion prevents.
type MaintenanceExclusionOptions struct {
	// Scope may be empty, which means ScopeNoUpgrades.
	Scope           ExclusionScope  `json:"scope"`
	EndTimeBehavior EndTimeBehavior `json:"endTimeBehavior"`
}

// ExclusionScope is the kind of upgrades that an exclusion prevents.
type ExclusionScope string

// Known values of ExclusionScope.
const (
	ScopeNoUpgrades            ExclusionScope = "NO_UPGRADES"
	ScopeNoMinorUpgrades       ExclusionScope = "NO_MINOR_UPGRADES"
	ScopeNoMinorOrNodeUpgrades ExclusionScope = "NO_MINOR_OR_NODE_UPGRADES"
)

// EndTimeBehavior is the way in which the end of an exclusion is computed.
type EndTimeBehavior string

// EndUntilEndOfSupport means that an exclusion ends with the support of the cluster's minor version.
const EndUntilEndOfSupport EndTimeBehavior = "UNTIL_END_OF_SUPPORT"

// NodePool is a node pool.
type NodePool struct {
	Name   string     `json:"name"`
	Status PoolStatus `json:"status"`
	// StatusMessage is text for people. The API calls it deprecated, and also sets Conditions.
	StatusMessage string            `json:"statusMessage"`
	Conditions    []StatusCondition `json:"conditions"`
	// Version is the version that new nodes of the pool get: "1.34.1-gke.1234000". During an upgrade old nodes have another one.
	Version string `json:"version"`
	// Etag changes with each change of the pool. See UpdateNodePoolRequest.
	Etag   string      `json:"etag"`
	Config *NodeConfig `json:"config"`
	// InitialNodeCount is the number of nodes of one zone when the pool was created or last resized. It is not the current number.
	InitialNodeCount int32 `json:"initialNodeCount"`
	// Locations lists the pool's zones.
	Locations []string `json:"locations"`
	// InstanceGroupURLs lists the managed instance groups: one for each zone and, during a blue-green upgrade, one for each zone
	// and color.
	InstanceGroupURLs []string                   `json:"instanceGroupUrls"`
	Autoscaling       *NodePoolAutoscaling       `json:"autoscaling"`
	Management        *NodeManagement            `json:"management"`
	UpgradeSettings   *UpgradeSettings           `json:"upgradeSettings"`
	NodeDrainConfig   *NodeDrainConfig           `json:"nodeDrainConfig"`
	MaintenancePolicy *NodePoolMaintenancePolicy `json:"maintenancePolicy"`
	UpdateInfo        *UpdateInfo                `json:"updateInfo"`
	// QueuedProvisioning is set for pools whose nodes GKE starts for jobs in a queue.
	QueuedProvisioning *QueuedProvisioning `json:"queuedProvisioning"`
}

// QueuedProvisioning sets whether GKE starts the nodes of a pool for jobs in a queue.
type QueuedProvisioning struct {
	Enabled bool `json:"enabled"`
}

// PoolStatus is the status of a node pool.
type PoolStatus string

// Known values of PoolStatus.
const (
	PoolProvisioning     PoolStatus = "PROVISIONING"
	PoolRunning          PoolStatus = "RUNNING"
	PoolRunningWithError PoolStatus = "RUNNING_WITH_ERROR"
	PoolReconciling      PoolStatus = "RECONCILING"
	PoolStopping         PoolStatus = "STOPPING"
	PoolError            PoolStatus = "ERROR"
)

// StatusCondition is a cause of a status.
type StatusCondition struct {
	// Code is a code of GKE: "GCE_STOCKOUT". The API calls it deprecated.
	Code ConditionCode `json:"code"`
	// CanonicalCode is a code of google.rpc.Code: "RESOURCE_EXHAUSTED".
	CanonicalCode CanonicalCode `json:"canonicalCode"`
	Message       string        `json:"message"`
}

// ConditionCode is GKE's code of a condition.
type ConditionCode string

// CanonicalCode is the name of a value of google.rpc.Code.
type CanonicalCode string

// NodeConfig is the configuration of the nodes of a pool.
type NodeConfig struct {
	// ImageType is the kind of node image: "COS_CONTAINERD".
	ImageType string `json:"imageType"`
	// Spot and Preemptible are two kinds of machines that Compute Engine may end at any time.
	Spot        bool `json:"spot"`
	Preemptible bool `json:"preemptible"`
	// FlexStart means that GKE starts the nodes when there is capacity, and ends them within 7 days.
	FlexStart bool `json:"flexStart"`
}

// NodePoolAutoscaling is the configuration of the cluster autoscaler for a pool. If Enabled is false, the counts are meaningless.
type NodePoolAutoscaling struct {
	Enabled bool `json:"enabled"`
	// MinNodeCount and MaxNodeCount are for each zone.
	MinNodeCount int32 `json:"minNodeCount"`
	MaxNodeCount int32 `json:"maxNodeCount"`
	// TotalMinNodeCount and TotalMaxNodeCount are for all zones together. A pool has these or the counts for each zone.
	TotalMinNodeCount int32 `json:"totalMinNodeCount"`
	TotalMaxNodeCount int32 `json:"totalMaxNodeCount"`
	// Autoprovisioned means that GKE created the pool and may delete it.
	Autoprovisioned bool           `json:"autoprovisioned"`
	LocationPolicy  LocationPolicy `json:"locationPolicy"`
}

// LocationPolicy is the way in which the autoscaler chooses a zone.
type LocationPolicy string

// Known values of LocationPolicy.
const (
	LocationBalanced LocationPolicy = "BALANCED"
	LocationAny      LocationPolicy = "ANY"
)

// NodeManagement lists what GKE does with the nodes of a pool by itself.
type NodeManagement struct {
	AutoUpgrade    bool                `json:"autoUpgrade"`
	AutoRepair     bool                `json:"autoRepair"`
	UpgradeOptions *AutoUpgradeOptions `json:"upgradeOptions"`
}

// AutoUpgradeOptions announces an automatic upgrade.
type AutoUpgradeOptions struct {
	// AutoUpgradeStartTime is approximate.
	AutoUpgradeStartTime Time   `json:"autoUpgradeStartTime"`
	Description          string `json:"description"`
}

// UpgradeSettings sets how GKE upgrades a pool. In a request nil fields are omitted, in an answer a nil field is 0.
type UpgradeSettings struct {
	Strategy Strategy `json:"strategy,omitempty"`
	// MaxSurge is the number of additional nodes, and MaxUnavailable the number of nodes that may be missing. Their sum is the
	// number of nodes that are upgraded together. GKE upgrades one zone after another, so both are for one zone.
	MaxSurge          *int32             `json:"maxSurge,omitempty"`
	MaxUnavailable    *int32             `json:"maxUnavailable,omitempty"`
	BlueGreenSettings *BlueGreenSettings `json:"blueGreenSettings,omitempty"`
}

// Strategy is the way in which GKE replaces nodes.
type Strategy string

// Known values of Strategy.
const (
	StrategyUnspecified Strategy = "NODE_POOL_UPDATE_STRATEGY_UNSPECIFIED"
	StrategySurge       Strategy = "SURGE"
	StrategyBlueGreen   Strategy = "BLUE_GREEN"
	StrategyShortLived  Strategy = "SHORT_LIVED"
)

// BlueGreenSettings sets how a blue-green upgrade drains the old nodes. It has one of the two policies.
type BlueGreenSettings struct {
	// NodePoolSoakDuration is the time between the last drain and the deletion of the old nodes.
	NodePoolSoakDuration    *Duration                `json:"nodePoolSoakDuration,omitempty"`
	StandardRolloutPolicy   *StandardRolloutPolicy   `json:"standardRolloutPolicy,omitempty"`
	AutoscaledRolloutPolicy *AutoscaledRolloutPolicy `json:"autoscaledRolloutPolicy,omitempty"`
}

// StandardRolloutPolicy drains the old nodes in batches. A batch has a size in nodes or as a part of the pool.
type StandardRolloutPolicy struct {
	BatchNodeCount *int32 `json:"batchNodeCount,omitempty"`
	// BatchPercentage is above 0 and at most 1.
	BatchPercentage *float64 `json:"batchPercentage,omitempty"`
	// BatchSoakDuration is the time after each batch.
	BatchSoakDuration *Duration `json:"batchSoakDuration,omitempty"`
}

// AutoscaledRolloutPolicy gives pods time to leave the old nodes before these are drained.
type AutoscaledRolloutPolicy struct {
	// WaitForDrainDuration is at most 7 days. nil means 3 days.
	WaitForDrainDuration *Duration `json:"waitForDrainDuration,omitempty"`
}

// NodeDrainConfig sets how GKE drains the nodes of a pool. In a request nil fields are omitted.
type NodeDrainConfig struct {
	// PDBTimeoutDuration is the time for which evictions obey budgets.
	PDBTimeoutDuration *Duration `json:"pdbTimeoutDuration,omitempty"`
	// GraceTerminationDuration is the longest time that an evicted pod gets to end.
	GraceTerminationDuration *Duration `json:"graceTerminationDuration,omitempty"`
	// RespectPDBDuringNodePoolDeletion means that budgets are also obeyed when the pool is deleted.
	RespectPDBDuringNodePoolDeletion *bool `json:"respectPdbDuringNodePoolDeletion,omitempty"`
}

// NodePoolMaintenancePolicy limits the automatic upgrades of one pool.
type NodePoolMaintenancePolicy struct {
	ExclusionUntilEndOfSupport *ExclusionUntilEndOfSupport `json:"exclusionUntilEndOfSupport"`
}

// ExclusionUntilEndOfSupport prevents automatic upgrades until the support of the control plane's version ends.
type ExclusionUntilEndOfSupport struct {
	Enabled   bool `json:"enabled"`
	StartTime Time `json:"startTime"`
	EndTime   Time `json:"endTime"`
}

// UpdateInfo describes a running update of a pool.
type UpdateInfo struct {
	BlueGreenInfo *BlueGreenInfo `json:"blueGreenInfo"`
}

// BlueGreenInfo describes a blue-green upgrade. The blue nodes are the old ones.
type BlueGreenInfo struct {
	Phase            Phase  `json:"phase"`
	GreenPoolVersion string `json:"greenPoolVersion"`
	// BluePoolDeletionStartTime is the end of the soak. It is zero before.
	BluePoolDeletionStartTime Time     `json:"bluePoolDeletionStartTime"`
	BlueInstanceGroupURLs     []string `json:"blueInstanceGroupUrls"`
	GreenInstanceGroupURLs    []string `json:"greenInstanceGroupUrls"`
}

// Phase is the phase of a blue-green upgrade.
type Phase string

// Known values of Phase. The discovery document of v1 does not list PhaseWaitingToDrainBluePool; v1beta1 does.
const (
	PhaseUpdateStarted          Phase = "UPDATE_STARTED"
	PhaseCreatingGreenPool      Phase = "CREATING_GREEN_POOL"
	PhaseCordoningBluePool      Phase = "CORDONING_BLUE_POOL"
	PhaseWaitingToDrainBluePool Phase = "WAITING_TO_DRAIN_BLUE_POOL"
	PhaseDrainingBluePool       Phase = "DRAINING_BLUE_POOL"
	PhaseNodePoolSoaking        Phase = "NODE_POOL_SOAKING"
	PhaseDeletingBluePool       Phase = "DELETING_BLUE_POOL"
	PhaseRollbackStarted        Phase = "ROLLBACK_STARTED"
)

// Operation is work that GKE does after it accepted a request, or that it began by itself. A cluster has one at a time.
type Operation struct {
	// Name is the operation's ID: "operation-1784863408191-5f1c2d3e".
	Name          string          `json:"name"`
	OperationType OperationType   `json:"operationType"`
	Status        OperationStatus `json:"status"`
	// TargetLink is the URL of the cluster, pool or node that is changed. Its project is a number. See ParseTarget.
	TargetLink string `json:"targetLink"`
	// Location and Zone are the cluster's zone or region. Real answers may have only Zone, also for a region: call Where.
	Location  string `json:"location"`
	Zone      string `json:"zone"`
	StartTime Time   `json:"startTime"`
	// EndTime is zero while the operation runs.
	EndTime Time   `json:"endTime"`
	Detail  string `json:"detail"`
	// StatusMessage is the text of a failure or of a cancellation: "Operation was aborted: …". The API calls it deprecated.
	StatusMessage string             `json:"statusMessage"`
	Progress      *OperationProgress `json:"progress"`
	// Error is set if the operation failed.
	Error *Status `json:"error"`
}

// Where returns the zone or region of the operation's cluster.
func (o *Operation) Where() string {
	if o.Location != "" {
		return o.Location
	}
	return o.Zone
}

// OperationType is the kind of an operation.
type OperationType string

// The values of OperationType that concern nodes.
const (
	OperationUpgradeMaster         OperationType = "UPGRADE_MASTER"
	OperationUpgradeNodes          OperationType = "UPGRADE_NODES"
	OperationAutoUpgradeNodes      OperationType = "AUTO_UPGRADE_NODES"
	OperationAutoRepairNodes       OperationType = "AUTO_REPAIR_NODES"
	OperationUpdateCluster         OperationType = "UPDATE_CLUSTER"
	OperationCreateNodePool        OperationType = "CREATE_NODE_POOL"
	OperationDeleteNodePool        OperationType = "DELETE_NODE_POOL"
	OperationSetNodePoolSize       OperationType = "SET_NODE_POOL_SIZE"
	OperationSetNodePoolManagement OperationType = "SET_NODE_POOL_MANAGEMENT"
)

// OperationStatus is the status of an operation.
type OperationStatus string

// Known values of OperationStatus. A failed or cancelled operation also ends as OperationDone.
const (
	OperationPending  OperationStatus = "PENDING"
	OperationRunning  OperationStatus = "RUNNING"
	OperationDone     OperationStatus = "DONE"
	OperationAborting OperationStatus = "ABORTING"
)

// OperationProgress is the progress of an operation or of one of its stages.
type OperationProgress struct {
	Name    string              `json:"name"`
	Status  OperationStatus     `json:"status"`
	Metrics []Metric            `json:"metrics"`
	Stages  []OperationProgress `json:"stages"`
}

// Metric is a number or a text about the progress: "nodes done" and "nodes total" of a surge upgrade, UPGRADE_STAGE of a
// blue-green upgrade. It has one of the three values.
type Metric struct {
	Name        string   `json:"name"`
	IntValue    *int64   `json:"intValue,string"`
	DoubleValue *float64 `json:"doubleValue"`
	StringValue string   `json:"stringValue"`
}

// Status is the error of a failed operation.
type Status struct {
	// Code is a value of google.rpc.Code, not of HTTP: 8 is RESOURCE_EXHAUSTED.
	Code    int32  `json:"code"`
	Message string `json:"message"`
}

// ServerConfig lists the versions and images that GKE offers at a location.
type ServerConfig struct {
	// ValidNodeVersions begins with the newest version.
	ValidNodeVersions     []string               `json:"validNodeVersions"`
	ValidMasterVersions   []string               `json:"validMasterVersions"`
	ValidImageTypes       []string               `json:"validImageTypes"`
	DefaultClusterVersion string                 `json:"defaultClusterVersion"`
	Channels              []ReleaseChannelConfig `json:"channels"`
}

// ReleaseChannelConfig lists the versions of a release channel.
type ReleaseChannelConfig struct {
	Channel        Channel  `json:"channel"`
	DefaultVersion string   `json:"defaultVersion"`
	ValidVersions  []string `json:"validVersions"`
	// UpgradeTargetVersion is the version to which GKE upgrades clusters of the channel by itself.
	UpgradeTargetVersion string `json:"upgradeTargetVersion"`
}

// NodePoolUpgradeInfo lists the automatic upgrades of a pool.
type NodePoolUpgradeInfo struct {
	// MinorTargetVersion and PatchTargetVersion are the next versions. They are empty if there is none.
	MinorTargetVersion string              `json:"minorTargetVersion"`
	PatchTargetVersion string              `json:"patchTargetVersion"`
	AutoUpgradeStatus  []AutoUpgradeStatus `json:"autoUpgradeStatus"`
	PausedReason       []PausedReason      `json:"pausedReason"`
	// UpgradeDetails lists past upgrades.
	UpgradeDetails []UpgradeDetails `json:"upgradeDetails"`
	// EndOfStandardSupportTimestamp and EndOfExtendedSupportTimestamp are for the pool's minor version. The API documents no format.
	EndOfStandardSupportTimestamp string `json:"endOfStandardSupportTimestamp"`
	EndOfExtendedSupportTimestamp string `json:"endOfExtendedSupportTimestamp"`
}

// AutoUpgradeStatus reports whether automatic upgrades are paused.
type AutoUpgradeStatus string

// Known values of AutoUpgradeStatus.
const (
	AutoUpgradeActive             AutoUpgradeStatus = "ACTIVE"
	AutoUpgradeMinorUpgradePaused AutoUpgradeStatus = "MINOR_UPGRADE_PAUSED"
	AutoUpgradeUpgradePaused      AutoUpgradeStatus = "UPGRADE_PAUSED"
)

// PausedReason is the reason why automatic upgrades are paused.
type PausedReason string

// Known values of PausedReason.
const (
	PausedByWindow              PausedReason = "MAINTENANCE_WINDOW"
	PausedByExclusion           PausedReason = "MAINTENANCE_EXCLUSION_NO_UPGRADES"
	PausedByExclusionMinorsOnly PausedReason = "MAINTENANCE_EXCLUSION_NO_MINOR_UPGRADES"
	PausedBySystem              PausedReason = "SYSTEM_CONFIG"
)

// UpgradeDetails is a past upgrade.
type UpgradeDetails struct {
	State          UpgradeState `json:"state"`
	StartType      StartType    `json:"startType"`
	InitialVersion string       `json:"initialVersion"`
	TargetVersion  string       `json:"targetVersion"`
	StartTime      Time         `json:"startTime"`
	EndTime        Time         `json:"endTime"`
}

// UpgradeState is the result of an upgrade.
type UpgradeState string

// Known values of UpgradeState.
const (
	UpgradeFailed    UpgradeState = "FAILED"
	UpgradeSucceeded UpgradeState = "SUCCEEDED"
	UpgradeCanceled  UpgradeState = "CANCELED"
	UpgradeRunning   UpgradeState = "RUNNING"
)

// StartType is the cause of an upgrade.
type StartType string

// Known values of StartType.
const (
	StartAutomatic StartType = "AUTOMATIC"
	StartManual    StartType = "MANUAL"
)

// ListClustersResponse lists clusters. MissingZones lists the zones that did not answer: their clusters may be missing.
type ListClustersResponse struct {
	Clusters     []Cluster `json:"clusters"`
	MissingZones []string  `json:"missingZones"`
}

// ListNodePoolsResponse lists the node pools of a cluster.
type ListNodePoolsResponse struct {
	NodePools []NodePool `json:"nodePools"`
}

// ListOperationsResponse lists operations. MissingZones lists the zones that did not answer: their operations may be missing.
type ListOperationsResponse struct {
	Operations   []Operation `json:"operations"`
	MissingZones []string    `json:"missingZones"`
}

// UpdateNodePoolRequest starts an upgrade of a pool. It has only fields that do not replace lists of the pool.
type UpdateNodePoolRequest struct {
	// NodeVersion is required. It is a version of GKE, the beginning of one ("1.34"), "latest", or "-" for the version of the
	// control plane.
	NodeVersion string `json:"nodeVersion"`
	// ImageType is required. Send the pool's own one to keep it.
	ImageType string `json:"imageType"`
	// Etag is the pool's Etag. If the pool has changed since it was read, the update fails with ClassConflict.
	Etag            string           `json:"etag,omitempty"`
	UpgradeSettings *UpgradeSettings `json:"upgradeSettings,omitempty"`
	NodeDrainConfig *NodeDrainConfig `json:"nodeDrainConfig,omitempty"`
}

// RollbackNodePoolUpgradeRequest returns the upgraded nodes of a pool to the old version.
type RollbackNodePoolUpgradeRequest struct {
	// RespectPDB means that the drains of the rollback obey budgets. GKE's default is false.
	RespectPDB bool `json:"respectPdb"`
}

// empty is an answer without fields.
type empty struct{}
