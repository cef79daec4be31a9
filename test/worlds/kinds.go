package worlds

// FaultKind is a fault of a request, a reading or a new node.
type FaultKind string

// The faults. The faults of evictions are the rows of Kubernetes K10.
const (
	EvictOverload   FaultKind = "429 priority and fairness"
	EvictInternal   FaultKind = "500 after the effect"
	EvictConflict   FaultKind = "504 update conflict"
	EvictWebhook    FaultKind = "403 webhook"
	EvictPending    FaultKind = "429 being processed"
	NodeConflict    FaultKind = "409 node changed"
	ClusterLost     FaultKind = "answer lost after the effect"
	ClusterRefused  FaultKind = "refused before the effect"
	ClusterSlow     FaultKind = "requests take long"
	CloudThrottled  FaultKind = "cloud throttles"
	CloudLost       FaultKind = "cloud answer lost after the effect"
	CloudUnsent     FaultKind = "cloud request lost before the effect"
	CloudSlow       FaultKind = "cloud takes long"
	CloudBlind      FaultKind = "cloud cannot be read"
	CloudStale      FaultKind = "cloud readings are old"
	WatchSlow       FaultKind = "watches are slow"
	StoreSlow       FaultKind = "record is stored slowly"
	ZoneFull        FaultKind = "zone out of capacity"
	BootNever       FaultKind = "nodes never boot"
	BootLate        FaultKind = "nodes boot late"
	BootUnlabelled  FaultKind = "nodes boot without labels"
	BudgetSlow      FaultKind = "disruption controller is slow"
	Forbidden       FaultKind = "403 forbidden"
	NodeObjectStays FaultKind = "node objects outlive machines"
	CloudUnknown    FaultKind = "instances in states nobody knows"

	OperationHidden    FaultKind = "operation is shown late"
	OperationFails     FaultKind = "operation fails"
	OperationCancelled FaultKind = "operation is cancelled"
	OperationShort     FaultKind = "operation succeeds too early"
	OperationLost      FaultKind = "operation is told of no more"
	OperationOvertaken FaultKind = "operation fails unseen, and another follows"

	BalancersBlind FaultKind = "load balancers cannot be read"

	FreeKills FaultKind = "process dies as it gives nodes back"

	RestartForbidden FaultKind = "403 restart forbidden"
	RestartDenied    FaultKind = "403 webhook denies restart"
	RestartLost      FaultKind = "answer to restart lost after the effect"
	RestartKills     FaultKind = "process dies as it restarts"
)

func allFaults() []FaultKind { return append(commonFaults(), CloudUnknown) }

// restartFaults returns the faults of requests to restart a Deployment.
func restartFaults() []FaultKind {
	return []FaultKind{RestartForbidden, RestartDenied, RestartLost, RestartKills, NodeConflict}
}

// operationFaults returns the faults of a cloud that upgrades its groups itself.
func operationFaults() []FaultKind {
	return []FaultKind{
		OperationHidden, OperationHidden, OperationFails, OperationFails, OperationCancelled, OperationShort, OperationLost, OperationLost,
		Forbidden, CloudLost, CloudUnsent, CloudUnknown,
	}
}

// commonFaults returns the faults that every world may have, unless it is undisturbed. Their order must stay, because they are drawn by
// index.
func commonFaults() []FaultKind {
	return []FaultKind{
		EvictOverload, EvictInternal, EvictConflict, EvictWebhook, EvictPending, NodeConflict, ClusterLost, ClusterRefused,
		ClusterSlow, CloudThrottled, CloudLost, CloudUnsent, CloudSlow, CloudBlind, CloudStale, WatchSlow, StoreSlow, ZoneFull,
		BootNever, BootLate, BootUnlabelled, BudgetSlow, Forbidden, NodeObjectStays,
	}
}

// ActorKind is an action that the upgrade does not do itself.
type ActorKind string

// The actors.
const (
	Kill                  ActorKind = "process killed"
	KillMidStep           ActorKind = "process killed between actions"
	Interrupt             ActorKind = "Ctrl-C"
	Sleep                 ActorKind = "laptop sleeps"
	SecondRun             ActorKind = "a second run"
	Spot                  ActorKind = "spot takes an instance"
	ScalerGrows           ActorKind = "autoscaler grows the group"
	ScalerShrinks         ActorKind = "autoscaler removes a new node"
	AdminCordons          ActorKind = "admin cordons"
	AdminUncordons        ActorKind = "admin uncordons"
	AdminTaints           ActorKind = "admin taints"
	AdminLabels           ActorKind = "admin labels"
	AdminDeletes          ActorKind = "admin deletes a pod"
	AdminStripsNode       ActorKind = "admin strips annotations"
	AdminTerminates       ActorKind = "admin terminates an instance"
	AdminRaisesMax        ActorKind = "admin raises the maximum"
	AdminResumes          ActorKind = "admin resumes processes"
	AdminProtects         ActorKind = "admin protects an instance"
	NodeSilent            ActorKind = "node goes silent"
	PodCrashes            ActorKind = "pod crashes"
	OwnerFixes            ActorKind = "owner mends a workload"
	BudgetChanges         ActorKind = "budget changes"
	TargetMoves           ActorKind = "target moves"
	NamespaceEnds         ActorKind = "namespace ends"
	Pauses                ActorKind = "somebody pauses and resumes"
	Aborts                ActorKind = "somebody aborts"
	RollsBack             ActorKind = "somebody rolls back"
	EndsSoak              ActorKind = "somebody completes"
	OwnerDeploys          ActorKind = "owner changes a Deployment"
	OperationBegun        ActorKind = "another actor has the cloud begin"
	RecordMachineChanged  ActorKind = "another actor changes the record"
	AnnotationOverwritten ActorKind = "another actor scribbles on a node"
	RecordRevisionChanged ActorKind = "another actor changes the record's revision"
)

func allActors() []ActorKind {
	return []ActorKind{
		Kill, KillMidStep, Interrupt, Sleep, Spot, ScalerGrows, ScalerShrinks, AdminCordons, AdminUncordons, AdminTaints,
		AdminLabels, AdminDeletes, AdminStripsNode, AdminTerminates, AdminRaisesMax, AdminResumes, NodeSilent, PodCrashes,
		BudgetChanges, TargetMoves, NamespaceEnds,
	}
}

// rareActors returns the actors that only special worlds have; see for example addRareTrouble and addAnnotationOverwrites.
func rareActors() []ActorKind {
	return []ActorKind{SecondRun, AdminProtects, OperationBegun, EndsSoak, OwnerFixes, OwnerDeploys, RecordMachineChanged, AnnotationOverwritten, RecordRevisionChanged}
}
