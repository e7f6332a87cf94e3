from cluster_core.rebalance.check import check_plan as check_plan
from cluster_core.rebalance.execution.machine import Execution as Execution
from cluster_core.rebalance.goal.problem import Master as Master
from cluster_core.rebalance.goal.problem import Problem as Problem
from cluster_core.rebalance.plan import Move as Move
from cluster_core.rebalance.plan import Plan as Plan
from cluster_core.rebalance.planner import make_plan as make_plan
