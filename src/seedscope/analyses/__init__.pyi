from . import intrinsic as intrinsic
from . import membership as membership
from . import multiplicity as multiplicity
from . import per_instance as per_instance
from . import privacy_loss as privacy_loss
from . import reconstruction as reconstruction
